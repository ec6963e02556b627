// Command kuberay-validate says what a cluster with KubeRay would answer to the objects on its standard input.
//
// It asks in the order of a real cluster: the definitions (pruning, defaults, schema, expressions), the admission
// webhooks, the checks at the start of each reconciliation. A line of JSON a document goes to standard output.
//
// usage: kuberay-validate DEFINITIONS <objects.yaml
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Verdict is what is printed of one document: who refused it, why, and which fields nobody reads.
type Verdict struct {
	Name      string   `json:"name"`
	RefusedBy string   `json:"refusedBy,omitempty"`
	Reasons   []string `json:"reasons,omitempty"`
	Dropped   []string `json:"dropped,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("expected one argument, the folder of KubeRay's custom resource definitions"))
	}
	definitions, err := readDefinitions(os.Args[1])
	fail(err)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	reader := kyaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for number := 1; ; number++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		fail(err)
		var object map[string]any
		fail(yaml.Unmarshal(text, &object))
		if object == nil {
			continue
		}
		verdict, err := judge(definitions, object)
		if err != nil {
			fail(fmt.Errorf("document %d: %w", number, err))
		}
		fail(out.Encode(verdict))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kuberay-validate:", err)
		os.Exit(1)
	}
}
