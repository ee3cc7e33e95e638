package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/podset-operator/test/operator"
)

// collectEvidence returns what one needs to understand why a spec failed.
func collectEvidence(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	commands := []string{
		"get nodes -o wide",
		"get pods -A -o wide",
		"get lease -n " + operator.Namespace + " -o yaml",
		"describe deployments,pods -n " + operator.Namespace,
		"get events -n " + operator.Namespace + " --sort-by=.lastTimestamp",
		"logs -n " + operator.Namespace + " -l control-plane=controller-manager --prefix --tail=300",
		"logs -n " + operator.Namespace + " -l control-plane=controller-manager --prefix --tail=100 --previous",
	}
	if namespaceOfSpec != "" {
		commands = append(commands,
			"get podsets -n "+namespaceOfSpec+" -o yaml",
			"describe podsets,pods -n "+namespaceOfSpec,
			"get events -n "+namespaceOfSpec+" --sort-by=.metadata.creationTimestamp",
		)
	}
	var evidence strings.Builder
	for _, command := range commands {
		output, _ := run(ctx, "", kubectlCommand, strings.Fields(command)...)
		fmt.Fprintf(&evidence, "$ kubectl %s\n%s\n", command, output)
	}
	return evidence.String()
}
