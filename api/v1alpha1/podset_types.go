package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// PodSetLabel is on every pod of a PodSet; its value is the PodSet's name. It selects the pods in /scale and in
	// the manager's cache. Ownership, not this label, decides which pods belong to a PodSet.
	PodSetLabel = "app.example.com/podset"

	// AppLabel is set to the PodSet's name on its pods unless the template sets it.
	AppLabel = "app"

	// DeleteMeAnnotation on a pod makes it the first to go at the next scale-down. Any value marks the pod, except
	// "false".
	DeleteMeAnnotation = "app.example.com/delete-me"
)

// PodReplacementPolicy says when a terminating pod is replaced.
// +kubebuilder:validation:Enum=TerminationStarted;TerminationComplete
type PodReplacementPolicy string

const (
	// TerminationStarted replaces a pod as soon as its deletion has begun.
	TerminationStarted PodReplacementPolicy = "TerminationStarted"
	// TerminationComplete replaces a pod only when it has ended, so that the number of pods, terminating ones included,
	// does not exceed the desired one.
	TerminationComplete PodReplacementPolicy = "TerminationComplete"
)

// PodSetSpec is what the user wants.
// +kubebuilder:validation:XValidation:rule="!has(self.template) || has(self.template.spec) && self.template.spec.containers.size() > 0",message="spec.template.spec.containers must name at least one container; leave spec.template out to run the default one"
type PodSetSpec struct {
	// replicas is the number of pods to keep running. At most 10000, so that
	// status.podNames stays well below the size limit of an object.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// template describes the pods: its labels, annotations, finalizers and spec;
	// the rest of its metadata is ignored. Left out, each pod runs one busybox
	// container that sleeps, fit for the restricted Pod Security Standard. The
	// pods always get the label app.example.com/podset with the PodSet's name,
	// and the label app with the PodSet's name unless the template sets that
	// one. A change of the template applies to pods created from then on.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// minReadySeconds is for how many seconds a new pod must have been ready,
	// without any of its containers crashing, to count as available.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// podReplacementPolicy says when a terminating pod is replaced:
	// TerminationStarted (at once) or TerminationComplete (only when it has
	// ended).
	// +optional
	// +kubebuilder:default=TerminationStarted
	PodReplacementPolicy PodReplacementPolicy `json:"podReplacementPolicy,omitempty"`

	// failedPodsHistoryLimit is how many Failed or Succeeded pods, the newest
	// ones, are kept for diagnosis. They do not count towards replicas.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	FailedPodsHistoryLimit *int32 `json:"failedPodsHistoryLimit,omitempty"`
}

// Condition types of a PodSet. Ready is always present once the PodSet has been observed; Reconciling and Stalled are
// present only while True, as kstatus asks for.
const (
	// ConditionReady is True while the desired number of pods exists and all of them are available.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator is still working towards the spec, or waits for pods.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing moves until the PodSet is changed.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions.
const (
	// ReasonPodsAvailable: the desired number of pods exists and all are available.
	ReasonPodsAvailable = "PodsAvailable"
	// ReasonScalingUp: there are too few pods.
	ReasonScalingUp = "ScalingUp"
	// ReasonScalingDown: there are too many pods.
	ReasonScalingDown = "ScalingDown"
	// ReasonPodsNotAvailable: the number of pods is right, but some are not available yet.
	ReasonPodsNotAvailable = "PodsNotAvailable"
	// ReasonPodsTerminating: pods are missing, and podReplacementPolicy waits for terminating ones to be gone.
	ReasonPodsTerminating = "PodsTerminating"
	// ReasonPodsFailing: pods end soon after their creation, so new ones are created ever more slowly.
	ReasonPodsFailing = "PodsFailing"
	// ReasonQuotaExceeded: a ResourceQuota does not allow another pod.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonForbidden: Pod Security, an admission policy, a webhook or missing rights refuse the change of a pod.
	ReasonForbidden = "Forbidden"
	// ReasonNamespaceTerminating: the namespace is being deleted and takes no new pods.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonInvalidTemplate: the API server refuses pods made from spec.template as invalid.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// PodSetStatus is what was observed: the counts, the names and the conditions are those of one moment.
type PodSetStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// -1 before the first observation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration"`

	// replicas is the number of active pods: owned by this PodSet, not
	// terminating, neither Failed nor Succeeded.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of active pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of active pods that have been ready for
	// at least minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// terminatingReplicas is the number of pods of this PodSet that are being
	// deleted and have not ended yet.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas"`

	// podNames are the names of the active pods, sorted.
	// +optional
	// +listType=atomic
	PodNames []string `json:"podNames,omitempty"`

	// selector matches the pods of this PodSet, in the text form that the
	// scale subresource wants.
	// +optional
	Selector string `json:"selector,omitempty"`

	// conditions are Ready, and while they are True, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodSet keeps a wanted number of pods running.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:singular=podset,categories=all
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Wanted pods"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`,description="Active pods"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Ready pods"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Pods ready for at least minReadySeconds"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Selector",type=string,JSONPath=`.status.selector`,priority=1,description="Selects the pods"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the PodSet is ready or not"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters long: it becomes the value of the label app.example.com/podset of every pod; choose a shorter name"
type PodSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +optional
	// +kubebuilder:default={}
	Spec PodSetSpec `json:"spec,omitempty"`

	// status is what the operator last observed.
	// +optional
	// +default={"observedGeneration": -1}
	Status PodSetStatus `json:"status,omitempty"`
}

// PodSetList is a list of PodSets.
//
// +kubebuilder:object:root=true
type PodSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodSet `json:"items"`
}
