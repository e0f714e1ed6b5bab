package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// TestCoordinatorError: each error of a coordinator has its exit code and says what to do.
func TestCoordinatorError(t *testing.T) {
	full := fmt.Errorf("write log: %w", syscall.ENOSPC)
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{full, exitDiskFull, "No assignment is lost. Free disk space, then start the coordinator again."},
		{errors.New("x/log/vote is damaged"), exitFatal, "empty the directory first"},
		{errors.New("input/output error"), exitFatal, "Remove the cause"},
		{&node.ConfigError{Text: "--dir x: give another"}, exitConfig, "--dir x"},
		{fmt.Errorf("lock x: %w", disk.ErrLocked), exitConfig, "lock x"},
	} {
		var text strings.Builder
		code := exitCode(coordinatorError("x", c.err), &text)
		if code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("exit code %d, %q; want %d, %q", code, text.String(), c.code, c.want)
		}
	}
	if err := coordinatorError("x", nil); err != nil {
		t.Error(err)
	}
}
