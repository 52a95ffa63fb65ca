"""Messages of kubelet's device plugin and pod-resources API, generated from the .proto files here."""
