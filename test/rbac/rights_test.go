package rbac

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/test/operator"
)

// right is one verb on one resource. Its scope is the operator's own namespace, or all.
type right struct {
	verb, group, resource string
	own                   bool
}

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.own {
		text += " in the operator's namespace"
	}
	return text
}

// needed are the rights of the manager, each with something that takes it.
var needed = []struct {
	right
	by behaviour
}{
	{right{verb: "create", resource: "pods"}, createsPods},
	{right{verb: "delete", resource: "pods"}, deletesPods},
	{right{verb: "get", resource: "pods"}, releasesPods},
	{right{verb: "list", resource: "pods"}, createsPodsWithoutStreamedLists},
	{right{verb: "patch", resource: "pods"}, adoptsOrphans},
	{right{verb: "watch", resource: "pods"}, keepsUp},

	{right{verb: "get", group: "app.example.com", resource: "podsets"}, deletesPods},
	{right{verb: "list", group: "app.example.com", resource: "podsets"}, createsPodsWithoutStreamedLists},
	{right{verb: "watch", group: "app.example.com", resource: "podsets"}, keepsUp},
	{right{verb: "update", group: "app.example.com", resource: "podsets/finalizers"}, createsPods},
	{right{verb: "update", group: "app.example.com", resource: "podsets/status"}, reportsStatus},

	{right{verb: "create", group: "events.k8s.io", resource: "events"}, tellsOfPods},
	{right{verb: "patch", group: "events.k8s.io", resource: "events"}, countsRepeatedEvents},

	{right{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"}, servesMetrics},
	{right{verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews"}, servesMetrics},

	{right{verb: "create", resource: "events", own: true}, tellsWhoLeads},
	{right{verb: "create", group: "coordination.k8s.io", resource: "leases", own: true}, leadsAsTheFirst},
	{right{verb: "get", group: "coordination.k8s.io", resource: "leases", own: true}, leadsAsTheFirst},
	{right{verb: "update", group: "coordination.k8s.io", resource: "leases", own: true}, leadsAfterAnother},
}

var _ = Describe("The manager", func() {
	It("has no right that is not in the list of those needed", func() {
		var listed []string
		for _, need := range needed {
			listed = append(listed, need.String())
		}
		var granted []string
		for _, role := range rolesAsShipped() {
			for _, r := range rightsOf(role) {
				granted = append(granted, r.String())
			}
		}
		Expect(granted).To(ConsistOf(listed))
	})

	for _, b := range behaviours {
		It(b.name+" with all its rights", func(ctx SpecContext) {
			restoreRights(ctx)
			Expect(b.shown(ctx)).To(Succeed())
		})
	}

	for _, need := range needed {
		It(fmt.Sprintf("without the right to %s no longer %s", need.right, need.by.name), func(ctx SpecContext) {
			withdraw(ctx, need.right)
			DeferCleanup(restoreRights)
			Expect(need.by.shown(ctx)).NotTo(Succeed())
		})
	}
})

// role is a ClusterRole or a Role, of which only the rules matter.
type role struct {
	client.Object
	rules *[]rbacv1.PolicyRule
}

// rolesAsShipped returns the roles of the manager as config/default has them.
func rolesAsShipped() []role {
	GinkgoHelper()
	objects, err := operator.Manifests("config/default")
	Expect(err).NotTo(HaveOccurred())
	var roles []role
	for _, object := range objects {
		if !strings.HasSuffix(object.GetName(), "manager-role") {
			continue
		}
		switch object.GetKind() {
		case "ClusterRole":
			typed := &rbacv1.ClusterRole{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)).To(Succeed())
			roles = append(roles, role{typed, &typed.Rules})
		case "Role":
			typed := &rbacv1.Role{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)).To(Succeed())
			roles = append(roles, role{typed, &typed.Rules})
		}
	}
	Expect(roles).To(HaveLen(2))
	return roles
}

func rightsOf(role role) []right {
	var rights []right
	for _, rule := range *role.rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{verb: verb, group: group, resource: resource, own: role.GetNamespace() != ""})
				}
			}
		}
	}
	return rights
}

func restoreRights(ctx context.Context) {
	GinkgoHelper()
	grant(ctx, func(right) bool { return true })
}

// withdraw takes one right from the manager and leaves it all others.
func withdraw(ctx context.Context, withdrawn right) {
	GinkgoHelper()
	grant(ctx, func(r right) bool { return r != withdrawn })
}

// grant gives the manager those of its rights that keep holds for, and returns when the API server knows.
func grant(ctx context.Context, keep func(right) bool) {
	GinkgoHelper()
	for _, role := range rolesAsShipped() {
		rights := rightsOf(role)
		*role.rules = nil
		for _, r := range rights {
			if keep(r) {
				*role.rules = append(*role.rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}})
			}
		}
		Expect(c.Update(ctx, role.Object)).To(Succeed())
		for _, r := range rights {
			Eventually(func() bool { return may(ctx, r) }).Should(Equal(keep(r)), "%s", r)
		}
	}
}

// may asks the API server whether the manager has a right.
func may(ctx context.Context, r right) bool {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(r.resource, "/")
	namespace := "default"
	if r.own {
		namespace = operator.Namespace
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + operator.Namespace + ":" + operator.ServiceAccount,
		Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource, Namespace: namespace,
		},
	}}
	answer, err := typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return answer.Status.Allowed
}

var behaviours = func() []behaviour {
	var all []behaviour
	for _, need := range needed {
		all = append(all, need.by)
	}
	slices.SortFunc(all, func(a, b behaviour) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b behaviour) bool { return a.name == b.name })
}()
