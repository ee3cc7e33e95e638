package podset

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Pods in clusters carry these revisions. A change here restarts everybody's pods.
func TestRevisionsNeverChange(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"none": {"", "s6vf8jvv2p"},
		"a web server": {`
metadata: {labels: {app: web, tier: front}, annotations: {example.com/team: blue}}
spec:
  containers:
  - name: web
    image: nginx:1.27
    ports: [{containerPort: 80, name: http}]
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 1Gi}}
    readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 5}
`, "6p8x4ng57c"},
		"all kinds of values": {`
metadata: {finalizers: [example.com/wait]}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  nodeSelector: {}
  tolerations: [{operator: Exists}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}}]}}
  volumes: [{name: scratch, emptyDir: {}}, {name: own, emptyDir: {sizeLimit: 1.5Gi, medium: Memory}}]
  initContainers: [{name: first, image: "busybox:1.37", restartPolicy: Always, command: ["sh", "-c", "echo \"ü\\n\""]}]
  containers:
  - name: main
    image: example
    env: [{name: A, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    livenessProbe: {tcpSocket: {port: 8080}, failureThreshold: 2}
    securityContext: {runAsUser: 0, capabilities: {drop: [ALL]}}
`, "hbxck6gbq9"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { mustEqual(t, Revision(templateFrom(t, test.template)), test.want) })
	}
}

func templateFrom(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	if text == "" {
		return nil
	}
	template := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), template); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestEqualTemplatesHaveEqualRevisions(t *testing.T) {
	tests := map[string]struct{ a, b string }{
		"metadata that pods do not get":      {`{}`, `{metadata: {name: a, generateName: b, namespace: c, creationTimestamp: null}}`},
		"empty lists and maps":               {`{}`, `{metadata: {labels: {}, finalizers: []}, spec: {containers: [], nodeSelector: {}}}`},
		"an empty template and none":         {`{}`, ``},
		"quantities of the same value":       {cpu("1000m"), cpu("1")},
		"the order in which it is written":   {`{spec: {hostname: a, subdomain: b}}`, `{spec: {subdomain: b, hostname: a}}`},
		"false and left out, if false is so": {`{spec: {hostNetwork: false}}`, `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mustEqual(t, Revision(templateFrom(t, test.a)), Revision(templateFrom(t, test.b)))
		})
	}
}

func cpu(quantity string) string {
	return `{spec: {containers: [{name: a, resources: {requests: {cpu: ` + quantity + `}}}]}}`
}

func TestDifferentTemplatesHaveDifferentRevisions(t *testing.T) {
	templates := []string{
		`{}`,
		`{metadata: {labels: {a: b}}}`,
		`{metadata: {annotations: {a: b}}}`,
		`{metadata: {finalizers: [a]}}`,
		`{metadata: {finalizers: [a, b]}}`,
		`{metadata: {finalizers: [b, a]}}`,
		`{spec: {hostname: a}}`,
		`{spec: {subdomain: a}}`,
		`{spec: {nodeSelector: {a: ""}}}`,
		`{spec: {automountServiceAccountToken: false}}`,
		`{spec: {automountServiceAccountToken: true}}`,
		`{spec: {terminationGracePeriodSeconds: 0}}`,
		`{spec: {securityContext: {}}}`,
		`{spec: {volumes: [{name: a}]}}`,
		`{spec: {volumes: [{name: a, emptyDir: {}}]}}`,
		`{spec: {containers: [{name: a}]}}`,
		`{spec: {initContainers: [{name: a}]}}`,
		`{spec: {containers: [{name: a, image: b}]}}`,
		`{spec: {containers: [{name: a}, {name: b}]}}`,
		`{spec: {containers: [{name: a, env: [{name: A}]}]}}`,
		`{spec: {containers: [{name: a, env: [{name: A, value: "1"}]}]}}`,
		`{spec: {containers: [{name: a, livenessProbe: {tcpSocket: {port: 80}}}]}}`,
		`{spec: {containers: [{name: a, livenessProbe: {tcpSocket: {port: "80"}}}]}}`,
		cpu("1"), cpu("2"), cpu("1m"), cpu("0"),
	}
	seen := map[string]string{}
	for _, template := range templates {
		revision := Revision(templateFrom(t, template))
		if other, ok := seen[revision]; ok {
			t.Errorf("%s and %s have the revision %s", other, template, revision)
		}
		seen[revision] = template
	}
}

// Newer versions of Kubernetes' types have more fields, in other places.
func TestFieldsThatAreNotSetDoNotMatter(t *testing.T) {
	type inner struct {
		Port int32 `json:"port"`
	}
	type before struct {
		Name  string `json:"name"`
		Inner inner  `json:"inner"`
	}
	type after struct {
		New     *inner  `json:"new,omitempty"`
		Another []inner `json:"another"`
		Inner   struct {
			New  map[string]string `json:"new"`
			Port int32             `json:"port,omitzero"`
		} `json:"inner"`
		Name string `json:"name,omitempty"`
	}
	newer := after{Name: "a"}
	newer.Inner.Port = 80
	mustEqual(t, canonical(reflect.ValueOf(newer)), canonical(reflect.ValueOf(before{Name: "a", Inner: inner{Port: 80}})))
	mustEqual(t, canonical(reflect.ValueOf(newer)), `{"inner":{"port":80},"name":"a"}`)
}

func TestPodsWithoutARevision(t *testing.T) {
	unlabelled := pod("a")
	o := Observation{PodSet: podSet(1), Revision: present}
	mustEqual(t, o.revisionOf(unlabelled), present)
	o.PodSet.Status.CurrentRevision = "older"
	mustEqual(t, o.revisionOf(unlabelled), "older")
	mustEqual(t, o.revisionOf(pod("b", ofRevision(present))), present)
}

// What pods without a revision are taken for does not change by being reported.
func TestPodsWithoutARevisionBesideOldOnes(t *testing.T) {
	o := Observation{PodSet: podSet(2), Owned: pods{pod("a", ready), oldPod("b", ready)}, Revision: present, Now: now}
	before := Status(o)
	mustEqual(t, []any{before.CurrentRevision, before.UpdatedReplicas}, []any{present, int32(1)})
	o.PodSet.Status = before
	mustEqual(t, Status(o), before)
}

func TestNewPodsHaveTheRevisionOfTheTemplate(t *testing.T) {
	changed := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "front"}},
		Spec:       corev1.PodSpec{Hostname: "a"},
	}
	made := NewPod(podSet(1, template(changed)), "a")
	o := Observation{PodSet: podSet(1), Revision: Revision(changed)}
	mustEqual(t, o.revisionOf(made), o.Revision)
}
