//go:build !linux

package disk

import "errors"

// unnamed reports that this system has no files without a name.
func unnamed(string) error { return errors.ErrUnsupported }
