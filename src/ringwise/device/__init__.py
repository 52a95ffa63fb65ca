"""The kubelet device plugin: discovery, health, allocation and reporting of the chips of one node."""
