package kubernetes

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorumlock/quorumlock/examples/deploy/internal/settings"
)

// manifest is one file, read strictly: a field that Kubernetes does not know fails the test.
type manifest struct {
	service     corev1.Service
	budget      policyv1.PodDisruptionBudget
	deployment  appsv1.Deployment
	statefulSet appsv1.StatefulSet
	pod         corev1.PodTemplateSpec // of the one of the two that is there
	replicas    int
}

func read(t *testing.T, file string) *manifest {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{}
	kinds := map[string]any{
		"Service": &m.service, "PodDisruptionBudget": &m.budget, "Deployment": &m.deployment, "StatefulSet": &m.statefulSet,
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatal(err)
		}
		into := kinds[head.Kind]
		if into == nil {
			t.Fatalf("%s: kind %q is not expected, or there twice", file, head.Kind)
		}
		delete(kinds, head.Kind)
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %s: %v", file, head.Kind, err)
		}
	}
	if len(kinds) != 1 {
		t.Fatalf("%s lacks one of %d kinds", file, len(kinds))
	}
	switch {
	case m.deployment.Name != "":
		m.pod, m.replicas = m.deployment.Spec.Template, int(*m.deployment.Spec.Replicas)
	default:
		m.pod, m.replicas = m.statefulSet.Spec.Template, int(*m.statefulSet.Spec.Replicas)
	}
	return m
}

// each runs a test on both manifests.
func each(t *testing.T, f func(t *testing.T, m *manifest)) {
	for _, file := range []string{"deployment.yaml", "statefulset.yaml"} {
		t.Run(file, func(t *testing.T) { f(t, read(t, file)) })
	}
}

func (m *manifest) container(t *testing.T) *corev1.Container {
	t.Helper()
	if n := len(m.pod.Spec.Containers); n != 1 {
		t.Fatalf("%d containers", n)
	}
	return &m.pod.Spec.Containers[0]
}

// settings are what the service makes of the pod's environment. TLS is left out: its files are not here.
func (m *manifest) settings(t *testing.T) settings.Settings {
	t.Helper()
	env := make(map[string]string)
	for _, v := range m.container(t).Env {
		if !slices.Contains(settings.Names(), v.Name) {
			t.Errorf("the service does not read %s", v.Name)
		}
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s is set twice", v.Name)
		}
		env[v.Name] = v.Value
		if v.ValueFrom != nil {
			env[v.Name] = field(t, v.ValueFrom)
		}
	}
	if env[settings.TLSDir] == "" || env[settings.Plaintext] != "" {
		t.Error("without TLS")
	}
	delete(env, settings.TLSDir)
	s, err := settings.Read(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const podIP, podName = "10.1.2.3", "orders-x"

func field(t *testing.T, from *corev1.EnvVarSource) string {
	t.Helper()
	value := map[string]string{"metadata.name": podName, "status.podIP": podIP}[from.FieldRef.FieldPath]
	if value == "" {
		t.Errorf("no such field of a pod: %s", from.FieldRef.FieldPath)
	}
	return value
}

func TestEnvironmentIsWhatTheServiceReads(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		s := m.settings(t)
		want := fmt.Sprintf("%s:%d", podIP, port(t, m))
		if s.Node.Advertise != want || s.Node.Name != podName || s.Node.Cluster == "" {
			t.Errorf("cluster %q, name %q, advertises %q", s.Node.Cluster, s.Node.Name, s.Node.Advertise)
		}
		if join := fmt.Sprintf("%s:%d", m.service.Name, port(t, m)); !slices.Equal(s.Node.Join, []string{join}) {
			t.Errorf("joins by %q, the service is at %s", s.Node.Join, join)
		}
		if returns := m.statefulSet.Name != ""; s.Returns != returns {
			t.Errorf("the instance comes back as itself: %v, want %v", s.Returns, returns)
		}
	})
}

// Expect is all replicas: no two groups of them can each found a cluster, at the most that a rollout has running.
func TestExpectFitsTheReplicas(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		expect, most := m.settings(t).Node.Expect, m.replicas
		if update := m.deployment.Spec.Strategy.RollingUpdate; update != nil {
			most += update.MaxSurge.IntValue()
		}
		const majority = 2 // of the default of three voters
		if expect != m.replicas || 2*expect <= most || expect <= most-majority {
			t.Errorf("Expect %d, %d replicas, %d at most", expect, m.replicas, most)
		}
	})
}

func port(t *testing.T, m *manifest) int32 {
	t.Helper()
	for _, v := range m.container(t).Env {
		if v.Name == settings.Port {
			n, err := strconv.Atoi(v.Value)
			if err != nil {
				t.Fatal(err)
			}
			return int32(n)
		}
	}
	t.Fatal("no port")
	return 0
}

func TestPortIsOpenForTCPAndUDP(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			ofService := func(p corev1.ServicePort) bool { return p.Port == port(t, m) && p.Protocol == protocol }
			ofPod := func(p corev1.ContainerPort) bool { return p.ContainerPort == port(t, m) && p.Protocol == protocol }
			if !slices.ContainsFunc(m.service.Spec.Ports, ofService) || !slices.ContainsFunc(m.container(t).Ports, ofPod) {
				t.Errorf("%d is not open for %s", port(t, m), protocol)
			}
		}
	})
}

func TestPodsFindEachOtherBeforeTheyAreReady(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		if s := m.service.Spec; s.ClusterIP != corev1.ClusterIPNone || !s.PublishNotReadyAddresses {
			t.Errorf("cluster IP %q, addresses of pods that are not ready: %v", s.ClusterIP, s.PublishNotReadyAddresses)
		}
		for key, value := range m.service.Spec.Selector {
			if m.pod.Labels[key] != value || m.budget.Spec.Selector.MatchLabels[key] != value {
				t.Errorf("%s=%s does not select the pods", key, value)
			}
		}
		if s := m.statefulSet; s.Name != "" && (s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || s.Spec.ServiceName != m.service.Name) {
			t.Errorf("pods start %s, under service %q", s.Spec.PodManagementPolicy, s.Spec.ServiceName)
		}
	})
}

// One pod at a time, and a new one in full before an old one goes.
func TestRolloutKeepsTheQuorum(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		if most := m.budget.Spec.MaxUnavailable; most == nil || most.IntValue() != 1 {
			t.Errorf("a drain may take %v pods", most)
		}
		ready := m.statefulSet.Spec.MinReadySeconds
		if d := m.deployment; d.Name != "" {
			ready = d.Spec.MinReadySeconds
			if u := d.Spec.Strategy.RollingUpdate; u.MaxSurge.IntValue() != 1 || u.MaxUnavailable.IntValue() != 0 {
				t.Errorf("surge %v, unavailable %v", u.MaxSurge, u.MaxUnavailable)
			}
		} else if kind := m.statefulSet.Spec.UpdateStrategy.Type; kind != appsv1.RollingUpdateStatefulSetStrategyType {
			t.Errorf("updates by %s", kind)
		}
		if promotion := 3 * time.Second; time.Duration(ready)*time.Second <= promotion { // 2 s of health, and the leader's next look
			t.Errorf("ready for %d s; a vote takes %v", ready, promotion)
		}
	})
}

func TestGracePeriodCoversTheWholeEnd(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		preStop := time.Duration(m.container(t).Lifecycle.PreStop.Sleep.Seconds) * time.Second
		end := preStop + settings.RequestBound + m.settings(t).StopBound
		if grace := time.Duration(*m.pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= end {
			t.Errorf("killed after %v, the end may take %v", grace, end)
		}
	})
}

// The probes ask the paths that the service has for them, at the port that it listens on.
func TestProbes(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		c := m.container(t)
		for path, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
			i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal })
			if probe.HTTPGet.Path != path || i < 0 {
				t.Fatalf("%s is asked for at port %q", probe.HTTPGet.Path, probe.HTTPGet.Port.StrVal)
			}
			if at := m.settings(t).HTTP; at != fmt.Sprintf(":%d", c.Ports[i].ContainerPort) {
				t.Errorf("the service listens on %s, the probe asks port %d", at, c.Ports[i].ContainerPort)
			}
		}
		if c.StartupProbe != nil {
			t.Error("a startup probe would restart pods that wait for each other")
		}
	})
}

func TestDirectoriesAreOnVolumesOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		dir := m.settings(t).Node.Dir
		if m.deployment.Name != "" {
			if dir != "" {
				t.Errorf("pods without disks keep data in %s", dir)
			}
			return
		}
		claim := m.statefulSet.Spec.VolumeClaimTemplates[0]
		i := slices.IndexFunc(m.container(t).VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == claim.Name })
		if i < 0 || !strings.HasPrefix(dir, m.container(t).VolumeMounts[i].MountPath+"/") {
			t.Errorf("%s is not on the volume", dir)
		}
		if modes := claim.Spec.AccessModes; !slices.Equal(modes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
			t.Errorf("access modes %v", modes)
		}
	})
}

// What the service needs of its certificates is mounted where it looks.
func TestCertificatesAreMounted(t *testing.T) {
	each(t, func(t *testing.T, m *manifest) {
		c := m.container(t)
		at := func(name string) string {
			return c.Env[slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })].Value
		}
		i := slices.IndexFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == at(settings.TLSDir) })
		if i < 0 || !c.VolumeMounts[i].ReadOnly {
			t.Fatalf("nothing is mounted at %s", at(settings.TLSDir))
		}
		secret := func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[i].Name && v.Secret != nil }
		if !slices.ContainsFunc(m.pod.Spec.Volumes, secret) {
			t.Error("the certificates are no secret")
		}
		if at(settings.TLSName) == "" {
			t.Error("no name to look for in the certificates")
		}
	})
}
