package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// PodSetLabel is on every pod of a PodSet; its value is the PodSet's name. It selects the pods in /scale and in
	// the manager's cache. Ownership, not this label, decides which pods belong to a PodSet.
	PodSetLabel = "app.example.com/podset"

	// AppLabel is set to the PodSet's name on its pods unless the template sets it.
	AppLabel = "app"

	// TemplateHashLabel is on every pod that the operator creates; its value is the revision of spec.template that the
	// pod was made from.
	TemplateHashLabel = "app.example.com/template-hash"

	// DeleteMeAnnotation on a pod makes it the first to go at the next scale-down. Any value marks the pod, except
	// "false". With the value "now" the pod is replaced without waiting for a scale-down.
	DeleteMeAnnotation = "app.example.com/delete-me"

	// DeleteMeNow is the value of DeleteMeAnnotation that has a pod replaced at once.
	DeleteMeNow = "now"
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

// UpdateStrategyType says who replaces the pods of an older template.
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
type UpdateStrategyType string

const (
	// RollingUpdate replaces them one by one, within budgets.
	RollingUpdate UpdateStrategyType = "RollingUpdate"
	// OnDelete leaves them until somebody else deletes them.
	OnDelete UpdateStrategyType = "OnDelete"
)

// UpdateStrategy says how existing pods are replaced after a change of the template.
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate is for the type RollingUpdate only"
type UpdateStrategy struct {
	// type is RollingUpdate, which replaces pods one by one within the budgets
	// of rollingUpdate, or OnDelete, which leaves it to others to delete pods of
	// an older template.
	// +optional
	// +kubebuilder:default=RollingUpdate
	Type UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate holds the budgets of the type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdateBudgets `json:"rollingUpdate,omitempty"`
}

// RollingUpdateBudgets bound how many pods there are during a roll-out.
// +kubebuilder:validation:XValidation:rule="string(self.maxUnavailable) in ['0', '0%', '00%'] ? !(string(self.maxSurge) in ['0', '0%', '00%']) : true",message="maxUnavailable and maxSurge cannot both be 0: no pod could be replaced"
type RollingUpdateBudgets struct {
	// maxUnavailable is how many pods, or which percentage of replicas rounded
	// down, may be unavailable during a roll-out by the operator's doing.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : string(self).matches('^(100|[0-9]{1,2})%$')",message="must be a number from 0 to 10000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many pods, or which percentage of replicas rounded up,
	// may exist beyond replicas during a roll-out.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : string(self).matches('^(100|[0-9]{1,2})%$')",message="must be a number from 0 to 10000 or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// PodSetSpec is what the user wants.
// +kubebuilder:validation:XValidation:rule="!has(self.minReadySeconds) || !has(self.progressDeadlineSeconds) || self.minReadySeconds < self.progressDeadlineSeconds",message="progressDeadlineSeconds must be greater than minReadySeconds: no new pod could be available in time"
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
	// one. After a change the pods are replaced as updateStrategy says.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// updateStrategy says how existing pods are replaced after a change of
	// template.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`

	// paused stops the replacement of pods of an older template. Scaling and
	// the replacement of lost pods go on, with the present template.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// progressDeadlineSeconds is after how many seconds without progress towards
	// the spec the PodSet counts as Stalled. It is still worked on then.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

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
	// ConditionReady is True while the desired number of pods exists and all of them are available. During a roll-out it
	// stays True as long as enough pods are available, with the observedGeneration of before: about the new
	// template it says nothing until the roll-out is complete, so whoever waits for it waits for that.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator is still working towards the spec, or waits for pods.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the template is refused as invalid, and when there was no progress for
	// spec.progressDeadlineSeconds. It takes somebody to help, as a rule by changing the PodSet.
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
	// ReasonRollingOut: pods of an older template are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonRollOutPaused: spec.paused keeps pods of an older template from being replaced.
	ReasonRollOutPaused = "RollOutPaused"
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
	// ReasonProgressDeadlineExceeded: no progress for spec.progressDeadlineSeconds, and no pod tells why. If one does,
	// the reason is the one of its container, such as ImagePullBackOff, or Unschedulable.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
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

	// updatedReplicas is the number of active pods made from the present
	// template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

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

	// currentRevision is the revision of the template that was last rolled out
	// completely, as in the label app.example.com/template-hash of the pods.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the revision of the present template. It differs from
	// currentRevision during a roll-out.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

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
// +kubebuilder:printcolumn:name="Up-To-Date",type=integer,JSONPath=`.status.updatedReplicas`,description="Active pods of the present template"
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
