package main

import (
	"context"
	"fmt"
	"strings"
)

// step is one thing a user does. It fails if the cluster does not answer as it must.
type step func(ctx context.Context) error

// expectation is what a command must show. The output of a repeatable one, which changes nothing, may take a while to.
type expectation struct {
	check      func(output string) (problem string)
	repeatable bool
}

const (
	name  = "example-podset"
	label = "app=" + name
)

// session is what a user does with a PodSet, from its creation to its deletion.
func session(d *demo) []step {
	do := func(says, stdin, command string, must expectation) step {
		return func(ctx context.Context) error {
			fmt.Println("\n# " + says)
			_, err := d.show(ctx, stdin, strings.Fields(command), must)
			return err
		}
	}
	list := func(says string, running int) step {
		return do(says, "", "get pods -l "+label, shows(func(output string) string { return wantPods(output, running) }))
	}
	apply := func(replicas int) string {
		return fmt.Sprintf("{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: %s}, spec: {replicas: %d}}",
			name, replicas)
	}
	const template = `{spec: {containers: [{name: busybox, image: "busybox:1.38", command: ["sleep", "7200"]}]}}`
	applyTemplate := strings.Replace(apply(4), "spec: {", "spec: {template: "+template+", ", 1)
	revisions := func(says string, image string) step {
		columns := "NAME:.metadata.name,IMAGE:.spec.containers[0].image"
		return do(says, "", "get pods -l "+label+" -o custom-columns="+columns, shows(func(output string) string {
			if strings.Count(output, image) != 4 || strings.Count(output, "\n") != 5 {
				return fmt.Sprintf("four pods of image %s should be there, and no other", image)
			}
			return ""
		}))
	}
	ready := do("Wait until it is ready.", "", "wait podset/"+name+" --for=condition=Ready --timeout=60s", answers("condition met"))

	return []step{
		do("Create a PodSet of three pods.", apply(3), "apply -f -", answers("created")),
		ready,
		list("Three pods run, named after the PodSet.", 3),
		d.deleteOnePod,
		list("Another one has replaced it.", 3),
		do("Scale to two.", "", "scale podset/"+name+" --replicas=2", answers("scaled")),
		list("Two pods run; the third is terminating, or gone already.", 2),
		do("Apply four replicas.", apply(4), "apply -f -", answers("configured")),
		ready,
		list("Four pods run.", 4),
		do("The PodSet at a glance.", "", "get podset "+name, answers("DESIRED")),
		do("Its status names the pods, and its events tell what happened.", "", "describe podset/"+name, shows(wantDescription)),
		do("Change the template.", applyTemplate, "apply -f -", answers("configured")),
		do("The roll-out begins: UP-TO-DATE rises, AVAILABLE stays.", "", "get podset "+name, shows(wantRollOut)),
		do("Wait until it is complete.", "", "wait podset/"+name+" --for=condition=Ready --timeout=60s", answers("condition met")),
		revisions("All pods are of the new template.", "busybox:1.38"),
		do("Roll back: apply what there was before.", apply(4), "apply -f -", answers("configured")),
		ready,
		revisions("All pods are of the old template again.", "busybox:1.37"),
		do("Delete the PodSet.", "", "delete podset "+name, answers("deleted")),
		list("All its pods go with it.", 0),
	}
}

// deleteOnePod deletes one of the PodSet's pods. Another must replace it; its UID tells it from the one that was deleted,
// whose name it may have got.
func (d *demo) deleteOnePod(ctx context.Context) error {
	fmt.Println("\n# Delete one of the pods.")
	identities := strings.Fields("get pods --no-headers -o custom-columns=NAME:.metadata.name,UID:.metadata.uid -l " + label)
	pods, err := d.show(ctx, "", identities, answers(name+"-pod"))
	if err != nil {
		return err
	}
	victim, uid := strings.Fields(pods)[0], strings.Fields(pods)[1]
	if _, err := d.show(ctx, "", []string{"delete", "pod", victim}, answers("deleted")); err != nil {
		return err
	}
	_, err = d.show(ctx, "", identities, shows(func(output string) string {
		if strings.Count(output, name+"-pod") != 3 || strings.Contains(output, uid) {
			return "three pods without the deleted one should be there"
		}
		return ""
	}))
	return err
}

// answers expects a text in the output of a command that is run once.
func answers(text string) expectation {
	return expectation{check: func(output string) string {
		if !strings.Contains(output, text) {
			return fmt.Sprintf("it should say %q", text)
		}
		return ""
	}}
}

// shows expects the check to pass, sooner or later.
func shows(check func(output string) string) expectation {
	return expectation{check: check, repeatable: true}
}

// wantPods checks a table of pods: as many Running as wanted, well named, and besides them only Terminating ones.
func wantPods(output string, running int) string {
	if running == 0 {
		if !strings.HasPrefix(output, "No resources found") {
			return "no pods should be left"
		}
		return ""
	}
	found := 0
	for _, line := range strings.Split(strings.TrimSpace(output), "\n")[1:] {
		columns := strings.Fields(line)
		switch {
		case len(columns) < 3 || !strings.HasPrefix(columns[0], name+"-pod"):
			return "there should be only pods of the PodSet"
		case columns[1] == "1/1" && columns[2] == "Running":
			found++
		case columns[2] != "Terminating":
			return "all pods should be Running or Terminating"
		}
	}
	if found != running {
		return fmt.Sprintf("%d pods should be Running", running)
	}
	return ""
}

// wantDescription checks that the status names four pods and that events follow at the end.
func wantDescription(output string) string {
	status, events, found := strings.Cut(output, "\nEvents:")
	_, names, hasNames := strings.Cut(status, "Pod Names:")
	switch {
	case !hasNames || strings.Count(names, name+"-pod") != 4:
		return "the status should name four pods"
	case !found || !strings.Contains(events, "PodCreated") || !strings.Contains(events, "PodDeleted"):
		return "events should tell of created and deleted pods"
	}
	return ""
}

// wantRollOut checks the columns of a PodSet whose new template is on its way, or there already.
func wantRollOut(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	columns := strings.Fields(lines[len(lines)-1])
	const upToDate, available = 3, 5
	if len(columns) <= available || columns[upToDate] == "0" || columns[available] < "4" {
		return "pods should be up to date, and four available"
	}
	return ""
}
