package main

import (
	"context"
	"fmt"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/common"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"github.com/ray-project/kuberay/ray-operator/pkg/features"
	webhooks "github.com/ray-project/kuberay/ray-operator/pkg/webhooks/v1"
	names "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func init() {
	gate := string(features.RayServiceIncrementalUpgrade)
	fail(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{gate: true}))
}

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
	for _, each := range names.NameIsDNSSubdomain(verdict.Name, false) {
		verdict.refuse("definition", fmt.Errorf("metadata.name: %s", each))
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
	case "RayService":
		service := &rayv1.RayService{}
		if err := typed(object, service); err != nil {
			return nil, err
		}
		verdict.judgeService(service)
	case "RayCronJob":
		cron := &rayv1.RayCronJob{}
		if err := typed(object, cron); err != nil {
			return nil, err
		}
		verdict.judgeCronJob(cron)
	default:
		return nil, fmt.Errorf("expected a kind of KubeRay's operator, found %s", kind)
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
		v.judgeCluster(clusterOf(job.ObjectMeta, utils.RayJobCRD, job.Spec.RayClusterSpec))
	}
	if mode := job.Spec.SubmissionMode; mode == rayv1.K8sJobMode || mode == rayv1.SidecarMode {
		_, err := common.BuildJobSubmitCommand(job, mode)
		v.refuse("operator", err)
	}
}

// judgeService asks with incremental upgrades on: without them the operator reads neither the type nor its options.
func (v *Verdict) judgeService(service *rayv1.RayService) {
	_, err := (&webhooks.RayServiceWebhook{}).ValidateCreate(context.Background(), service)
	v.refuse("webhook", err)
	v.refuse("operator", utils.ValidateRayServiceMetadata(service.ObjectMeta))
	if strategy := service.Spec.UpgradeStrategy; strategy != nil && strategy.Type == nil {
		// The operator follows a pointer to nothing here.
		service.Spec.UpgradeStrategy = nil
	}
	v.refuse("operator", utils.ValidateRayServiceSpec(service))
	if v.RefusedBy != "" {
		return
	}
	cluster := clusterOf(service.ObjectMeta, utils.RayServiceCRD, &service.Spec.RayClusterSpec)
	v.judgeCluster(cluster)
	_, err = common.BuildServeServiceForRayService(context.Background(), *service, *cluster)
	v.refuse("operator", err)
	applications := map[string]any{}
	if err := kyaml.Unmarshal([]byte(service.Spec.ServeConfigV2), &applications); err != nil {
		v.refuse("operator", fmt.Errorf("serveConfigV2: %w", err))
	}
}

// judgeCronJob asks about the job that the operator makes at each time of the schedule.
func (v *Verdict) judgeCronJob(cron *rayv1.RayCronJob) {
	defer func() {
		if what := recover(); what != nil {
			v.refuse("operator", fmt.Errorf("the operator panics: %v", what))
		}
	}()
	v.refuse("operator", utils.ValidateRayCronJobSpec(cron))
	if v.RefusedBy == "" {
		name := fmt.Sprintf("%s-%s", cron.Name, rand.String(5))
		v.judgeJob(&rayv1.RayJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cron.Spec.JobTemplate})
	}
}

// clusterOf returns the cluster that the operator makes for a job or a service, where validation looks at it.
func clusterOf(owner metav1.ObjectMeta, kind utils.CRDType, spec *rayv1.RayClusterSpec) *rayv1.RayCluster {
	labels := map[string]string{}
	for key, value := range owner.Labels {
		labels[key] = value
	}
	labels[utils.RayOriginatedFromCRNameLabelKey] = owner.Name
	labels[utils.RayOriginatedFromCRDLabelKey] = utils.RayOriginatedFromCRDLabelValue(kind)
	return &rayv1.RayCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:        utils.GenerateRayClusterName(owner.Name),
			Namespace:   owner.Namespace,
			Labels:      labels,
			Annotations: owner.Annotations,
		},
		Spec: *spec.DeepCopy(),
	}
}
