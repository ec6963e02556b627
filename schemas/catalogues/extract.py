"""Write what one version of a framework knows about its configuration, read from its source tree.

python schemas/catalogues/extract.py nemo-rl TREE VERSION > schemas/catalogues/nemo-rl/VERSION.yaml
python schemas/catalogues/extract.py verl TREE VERSION > schemas/catalogues/verl/VERSION.yaml
python schemas/catalogues/extract.py vllm TREE VERSION > schemas/catalogues/vllm/VERSION.yaml

The framework is read, never imported: no torch, no Ray. Keys, types and values are facts; no comment is carried over.
"""

from __future__ import annotations

import sys
from pathlib import Path

import from_nemo_rl
import from_verl
import from_vllm
from written import document

FRAMEWORKS = {"nemo-rl": from_nemo_rl.catalogue, "verl": from_verl.catalogue, "vllm": from_vllm.catalogue}


def main(framework: str, tree: str, version: str) -> None:
    """Print the catalogue of a source tree."""
    command = f"python schemas/catalogues/extract.py {framework} TREE {version}"
    sys.stdout.write(f"# Written by {command}\n{document(FRAMEWORKS[framework](Path(tree), version))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
