"""Ordinary documents of the benchmark's streams: what a chart prints beside the few objects that get wiring.

Each function takes a source of numbers and a name and returns one document without its `---` and `# Source:` lines.
Half of them are written by hand, as templates are, and half as `toYaml` prints them: sorted keys, lists not indented.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Document = Callable[[Random, str], str]

WORD_LIST = (
    "account batch buffer cache channel client cluster commit config counter cursor deadline delivery digest endpoint "
    "event export fallback field filter flush gateway handler header index inventory journal kind ledger lease limit "
    "listener lookup marker merge message metric node offset order page partition payload pointer pool profile prompt "
    "queue quota range reader record region registry replica report request retry reward route sample schedule schema "
    "segment session shard signal slot snapshot source span stream table target task tenant timer ticket topic trace "
    "update value version volume window worker writer zone"
)
WORDS = WORD_LIST.split()
TEAMS = ("serving", "ingest", "billing", "search", "research", "identity", "metrics", "edge")


def words(numbers: Random, count: int, between: str = " ") -> str:
    """Return some words."""
    return between.join(numbers.choices(WORDS, k=count))


def indented(text: str, spaces: int) -> str:
    """Indent every line that is not empty."""
    return "".join(" " * spaces + line if line.strip() else line for line in text.splitlines(keepends=True))


def metadata(numbers: Random, name: str, *, namespaced: bool = True, annotations: str = "") -> str:
    """Return the lines of `metadata:`."""
    team, base = numbers.choice(TEAMS), name.rsplit("-", 1)[0]
    place = f"  namespace: {team}\n" if namespaced else ""
    return (
        f"metadata:\n  name: {name}\n{place}  labels:\n"
        f"    app.kubernetes.io/name: {base}\n    app.kubernetes.io/instance: {team}\n"
        f'    app.kubernetes.io/version: "{numbers.randrange(9)}.{numbers.randrange(30)}"\n'
        f"    app.kubernetes.io/managed-by: Helm\n    helm.sh/chart: {base}-1.{numbers.randrange(9)}.0\n"
        + (f"  annotations:\n{annotations}" if annotations else "")
    )


# Lines of scripts and settings, with what a reader of YAML may stumble over.
LINES: tuple[Callable[[Random], str], ...] = (
    lambda n: f'if [ -z "${{{words(n, 2, "_").upper()}:-}}" ]; then echo "{words(n, 4)}" >&2; exit 1; fi',
    lambda n: f"# {words(n, 9)}: {words(n, 3)} # {words(n, 2)}",
    lambda n: f"{words(n, 1)}: {{{words(n, 1)}: [{words(n, 3, ', ')}]}}",
    lambda n: f"  {words(n, 2, '.')} = '{words(n, 5)}' && true || \"{words(n, 3)}\"",
    lambda n: f"\t{words(n, 2, '_')}={n.randrange(10**6)};",
    lambda n: "---" if n.randrange(7) else "kind: RayCluster",
    lambda n: f"- name: {words(n, 2, '_').upper()}",
    lambda n: "",
    lambda n: f'{{"{words(n, 1)}": {n.randrange(1000)}, "{words(n, 1)}": "{words(n, 6)}"}}',
    lambda n: f"naïve façade → {words(n, 4)} ✓ {n.randrange(100)} %",
)


def script(numbers: Random, lines: int) -> str:
    """Return a text for a block scalar."""
    made = [numbers.choice(LINES)(numbers) for _ in range(lines)]
    return "\n".join([words(numbers, 3), *made, f"echo {words(numbers, 2)}"]) + "\n"


def environment(numbers: Random, count: int) -> str:
    """Return entries of a container's environment, unindented, with the spellings that templates print."""
    lines = []
    for at in range(count):
        name = f"{words(numbers, 2, '_').upper()}_{at}"
        value = (
            f'"{numbers.randrange(10**5)}"',
            words(numbers, 1),
            f'"{words(numbers, 5)}"',
            f"'{{\"{words(numbers, 1)}\":{numbers.randrange(9)}}}'",
            f"https://{words(numbers, 2, '-')}.example.com:8443/{words(numbers, 2, '/')}",
            f'"{words(numbers, 2)}\\t\\"{words(numbers, 1)}\\""',
            f"{words(numbers, 9)}\n    {words(numbers, 9)}",
            f"/var/lib/{words(numbers, 2, '/')}",
        )[numbers.randrange(8)]
        if numbers.randrange(6):
            lines.append(f"- name: {name}\n  value: {value}\n")
        else:
            key, secret = words(numbers, 2, "_"), words(numbers, 2, "-")
            lines.append(f"- name: {name}\n  valueFrom:\n    secretKeyRef:\n      name: {secret}\n      key: {key}\n")
    return "".join(lines)


def pod(numbers: Random, name: str, *, restart: str = "") -> str:
    """Return the body of a pod's spec, unindented."""
    # A container whose requests are above its limits is refused by every API server: no chart ships one.
    memory = numbers.randrange(1, 64)
    probe = f"  httpGet:\n    path: /{words(numbers, 2, '/')}\n    port: http\n"
    return (
        (f"restartPolicy: {restart}\n" if restart else "")
        + f"serviceAccountName: {name}\nsecurityContext:\n  runAsNonRoot: true\n  fsGroup: 2000\n"
        + f'containers:\n  - name: {name.rsplit("-", 1)[0]}\n    image: "registry.example.com/{words(numbers, 2, "/")}:'
        + f'{numbers.randrange(9)}.{numbers.randrange(99)}"\n    imagePullPolicy: IfNotPresent\n'
        + f"    # {words(numbers, 8)}\n    args:\n      - --{words(numbers, 2, '-')}={numbers.randrange(99)}\n"
        + f"      - --{words(numbers, 2, '-')}\n    env:\n{indented(environment(numbers, numbers.randrange(4, 24)), 6)}"
        + "    ports:\n      - {name: http, containerPort: 8080, protocol: TCP}\n      - name: metrics\n"
        + f"        containerPort: 9090\n    livenessProbe:\n{indented(probe, 4)}    readinessProbe:\n"
        + f"{indented(probe, 4)}      periodSeconds: {numbers.randrange(5, 60)}\n    resources:\n      limits:\n"
        + f"        memory: {memory}Gi\n      requests:\n        cpu: {numbers.randrange(50, 900)}m\n"
        + f"        memory: {numbers.randint(1, memory)}Gi\n    volumeMounts:\n      - name: config\n"
        + f"        mountPath: /etc/{words(numbers, 1)}\n      - name: scratch\n        mountPath: /tmp\n"
        + f"volumes:\n  - name: config\n    configMap:\n      name: {name}\n  - name: scratch\n    emptyDir: {{}}\n"
        + 'nodeSelector:\n  kubernetes.io/os: linux\ntolerations:\n  - key: "workload"\n    operator: Exists\n'
        + "topologySpreadConstraints: []\n"
    )


def template(numbers: Random, name: str, **options: str) -> str:
    """Return a pod template: `metadata` and `spec`, unindented."""
    digest = f"{numbers.getrandbits(128):032x}"
    return (
        f"metadata:\n  labels:\n    app: {name}\n  annotations:\n    checksum/config: {digest}\n"
        f"    prometheus.io/scrape: 'true'\nspec:\n{indented(pod(numbers, name, **options), 2)}"
    )


def workload(kind: str, extra: str) -> Document:
    """Return a maker of Deployments, StatefulSets or DaemonSets."""

    def make(numbers: Random, name: str) -> str:
        """Return one workload."""
        return (
            f"apiVersion: apps/v1\nkind: {kind}\n{metadata(numbers, name)}spec:\n{extra.format(name=name)}"
            f"  selector:\n    matchLabels:\n      app: {name}\n  template:\n{indented(template(numbers, name), 4)}"
        )

    return make


def cron_job(numbers: Random, name: str) -> str:
    """Return a CronJob without GPUs."""
    return (
        f"apiVersion: batch/v1\nkind: CronJob\n{metadata(numbers, name)}spec:\n"
        f'  schedule: "{numbers.randrange(60)} */{numbers.randrange(2, 9)} * * *"\n  concurrencyPolicy: Forbid\n'
        f"  jobTemplate:\n    spec:\n      backoffLimit: 2\n      template:\n"
        f"{indented(template(numbers, name, restart='Never'), 8)}"
    )


def service(numbers: Random, name: str) -> str:
    """Return a Service, as toYaml prints it."""
    return (
        f"# {words(numbers, 7)}\napiVersion: v1\nkind: Service\n{metadata(numbers, name)}spec:\n"
        f"  ports:\n  - name: http\n    port: {numbers.randrange(80, 9000)}\n    protocol: TCP\n    targetPort: http\n"
        f"  selector:\n    app: {name}\n  type: ClusterIP\n"
    )


def config_map(lines: int) -> Document:
    """Return a maker of ConfigMaps with block scalars of so many lines."""

    def make(numbers: Random, name: str) -> str:
        """Return one ConfigMap."""
        half = max(lines // 2, 2)
        return (
            f"apiVersion: v1\nkind: ConfigMap\n{metadata(numbers, name)}data:\n  {words(numbers, 2, '.')}.sh: |-\n"
            f"{indented(script(numbers, half), 4)}  {words(numbers, 2, '_')}: |\n{indented(script(numbers, half), 4)}"
            f'  {words(numbers, 1)}.level: "{numbers.randrange(9)}"\n  summary: >-\n    {words(numbers, 10)}\n'
            f"    {words(numbers, 6)}\n  enabled: 'yes'\n"
        )

    return make


def secret(numbers: Random, name: str) -> str:
    """Return a Secret whose values are noise."""
    noise = "".join(f"  {words(numbers, 1)}-{at}: {'QUJD' * numbers.randrange(2, 12)}\n" for at in range(3))
    return f"apiVersion: v1\nkind: Secret\n{metadata(numbers, name)}type: Opaque\ndata:\n{noise}"


def account(numbers: Random, name: str) -> str:
    """Return a ServiceAccount."""
    note = f"    iam.example.com/account: {words(numbers, 2, '-')}@example.com\n"
    return (
        f"apiVersion: v1\nkind: ServiceAccount\n{metadata(numbers, name, annotations=note)}"
        "automountServiceAccountToken: false\n"
    )


def cluster_role(numbers: Random, name: str) -> str:
    """Return a ClusterRole, with lists in one line."""
    rules = "".join(
        f'  - apiGroups: ["", "{words(numbers, 1)}.example.com"]\n    resources: [{words(numbers, 3, ", ")}]\n'
        f'    verbs: ["get", "list", "watch"]\n'
        for _ in range(numbers.randrange(2, 12))
    )
    head = metadata(numbers, name, namespaced=False)
    return f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n{head}rules:\n{rules}"


def role_binding(numbers: Random, name: str) -> str:
    """Return a RoleBinding."""
    return (
        f"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n{metadata(numbers, name)}roleRef:\n"
        f"  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {words(numbers, 2, '-')}\nsubjects:\n"
        f"- kind: ServiceAccount\n  name: {words(numbers, 2, '-')}\n  namespace: {numbers.choice(TEAMS)}\n"
    )


def network_policy(numbers: Random, name: str) -> str:
    """Return a NetworkPolicy."""
    return (
        f"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n{metadata(numbers, name)}spec:\n  podSelector:\n"
        f"    matchLabels: {{app: {name}}}\n  policyTypes:\n    - Ingress\n  ingress:\n    - from:\n"
        f"        - namespaceSelector: {{}}\n      ports:\n        - port: {numbers.randrange(80, 9000)}\n"
    )


def monitor(numbers: Random, name: str) -> str:
    """Return an object of a kind that nobody here knows."""
    rules = "".join(
        f"        - alert: {words(numbers, 2, '_')}\n          expr: |\n"
        f"            sum(rate({words(numbers, 3, '_')}[5m])) > {numbers.randrange(99)}\n          for: 10m\n"
        f'          annotations:\n            summary: "{{{{ $labels.instance }}}}: {words(numbers, 8)}"\n'
        for _ in range(numbers.randrange(3, 15))
    )
    return (
        f"apiVersion: monitoring.example.com/v1\nkind: AlertRule\n{metadata(numbers, name)}spec:\n  groups:\n"
        f"    - name: {name}\n      rules:\n{rules}"
    )


def schema(numbers: Random, depth: int, spaces: int) -> str:
    """Return the properties of a schema, of a form that a CustomResourceDefinition has."""
    pad = " " * spaces
    made = []
    for at in range(5):
        name = f"{words(numbers, 1)}{words(numbers, 1).title()}{at}"
        text = f"{words(numbers, 11)}\n{pad}    {words(numbers, 12)}\n{pad}    {words(numbers, 5)}."
        made.append(f"{pad}{name}:\n{pad}  description: {text}\n")
        if depth and at < 4:
            made.append(f"{pad}  properties:\n{schema(numbers, depth - 1, spaces + 4)}{pad}  type: object\n")
        elif numbers.randrange(2):
            made.append(f'{pad}  default: ""\n{pad}  enum: [{words(numbers, 3, ", ")}]\n{pad}  type: string\n')
        else:
            made.append(f"{pad}  format: int32\n{pad}  minimum: 0\n{pad}  type: integer\n")
    return "".join(made)


def definition(depth: int) -> Document:
    """Return a maker of CustomResourceDefinitions; each level of depth has four times the size."""

    def make(numbers: Random, name: str) -> str:
        """Return one definition."""
        kind, group = name.title().replace("-", ""), "bench.example.com"
        plural = name.replace("-", "") + "s"
        return (
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  annotations:\n"
            f"    controller-gen.kubebuilder.io/version: v0.16.1\n  name: {plural}.{group}\nspec:\n  group: {group}\n"
            f"  names:\n    kind: {kind}\n    listKind: {kind}List\n    plural: {plural}\n"
            "  scope: Namespaced\n  versions:\n  - name: v1\n    schema:\n      openAPIV3Schema:\n        properties:\n"
            f"{schema(numbers, depth, 10)}        type: object\n    served: true\n    storage: true\n"
        )

    return make
