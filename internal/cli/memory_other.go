//go:build !linux

package cli

import "math"

func addressSpace() int64 { return math.MaxInt }
