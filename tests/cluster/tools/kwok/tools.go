//go:build tools

// Package tools names the program to build, so that go.mod and go.sum pin everything it needs.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
