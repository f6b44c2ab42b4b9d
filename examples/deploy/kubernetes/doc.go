// Package kubernetes holds manifests that run examples/deploy, as a Deployment and as a StatefulSet. It is a module of its
// own for the sake of their test, which reads them by the types of Kubernetes.
package kubernetes
