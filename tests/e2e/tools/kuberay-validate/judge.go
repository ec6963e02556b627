package main

import (
	"context"
	"fmt"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/common"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	webhooks "github.com/ray-project/kuberay/ray-operator/pkg/webhooks/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func judge(definitions map[string]*Definition, object map[string]any) (*Verdict, error) {
	kind := fmt.Sprintf("%v/%v", object["apiVersion"], object["kind"])
	definition, ok := definitions[kind]
	if !ok {
		return nil, fmt.Errorf("expected an object of KubeRay, found %s", kind)
	}
	verdict := &Verdict{}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		verdict.Name, _ = metadata["name"].(string)
	}
	dropped, wrong := definition.admit(object)
	verdict.Dropped = dropped
	for _, each := range wrong {
		verdict.refuse("definition", each)
	}
	if verdict.RefusedBy != "" {
		return verdict, nil
	}
	switch object["kind"] {
	case "RayCluster":
		cluster := &rayv1.RayCluster{}
		if err := typed(object, cluster); err != nil {
			return nil, err
		}
		verdict.judgeCluster(cluster)
	case "RayJob":
		job := &rayv1.RayJob{}
		if err := typed(object, job); err != nil {
			return nil, err
		}
		verdict.judgeJob(job)
	default:
		return nil, fmt.Errorf("expected a RayCluster or a RayJob, found %s", kind)
	}
	return verdict, nil
}

func typed(object map[string]any, target any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, target)
}

// refuse keeps the first who refuses, with everything that it says.
func (v *Verdict) refuse(who string, err error) {
	if err != nil && (v.RefusedBy == "" || v.RefusedBy == who) {
		v.RefusedBy = who
		v.Reasons = append(v.Reasons, err.Error())
	}
}

func (v *Verdict) judgeCluster(cluster *rayv1.RayCluster) {
	_, err := (&webhooks.RayClusterWebhook{}).ValidateCreate(context.Background(), cluster)
	v.refuse("webhook", err)
	v.refuse("operator", utils.ValidateRayClusterMetadata(cluster.ObjectMeta))
	v.refuse("operator", utils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations))
	v.refuse("operator", utils.ValidateRayClusterUpgradeOptions(cluster))
}

func (v *Verdict) judgeJob(job *rayv1.RayJob) {
	_, err := (&webhooks.RayJobWebhook{}).ValidateCreate(context.Background(), job)
	v.refuse("webhook", err)
	v.refuse("operator", utils.ValidateRayJobMetadata(job.ObjectMeta))
	v.refuse("operator", utils.ValidateRayJobSpec(job))
	if v.RefusedBy != "" {
		return
	}
	if len(job.Spec.ClusterSelector) == 0 {
		v.judgeCluster(clusterOf(job))
	}
	if mode := job.Spec.SubmissionMode; mode == rayv1.K8sJobMode || mode == rayv1.SidecarMode {
		_, err := common.BuildJobSubmitCommand(job, mode)
		v.refuse("operator", err)
	}
}

// clusterOf returns the cluster that the operator makes for a job, where validation looks at it.
func clusterOf(job *rayv1.RayJob) *rayv1.RayCluster {
	labels := map[string]string{}
	for key, value := range job.Labels {
		labels[key] = value
	}
	labels[utils.RayOriginatedFromCRNameLabelKey] = job.Name
	labels[utils.RayOriginatedFromCRDLabelKey] = utils.RayOriginatedFromCRDLabelValue(utils.RayJobCRD)
	return &rayv1.RayCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:        utils.GenerateRayClusterName(job.Name),
			Namespace:   job.Namespace,
			Labels:      labels,
			Annotations: job.Annotations,
		},
		Spec: *job.Spec.RayClusterSpec.DeepCopy(),
	}
}
