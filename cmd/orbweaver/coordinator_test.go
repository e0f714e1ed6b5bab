package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
		{input.Errorf("{dir} x: give another"), exitConfig, "--dir x"},
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

// TestClusterStatus: the tables have a dash for what the coordinator does not know, and name an agent that is up but
// silent.
func TestClusterStatus(t *testing.T) {
	const leads = `{"address":"c:1","leader":"c:1","leads":true,`
	const heard = `"agents":[{"name":"a1","state":"up","address":"a:1","hosts":3,"read":7,"heard_ms":32000}]}`
	for _, c := range []struct{ state, has, lacks, err string }{
		{leads + heard, "\nAgent a1 was not heard of for 32s", "\t", ""},
		{leads + `"ended":true,` + heard, "3      0             7     32s ago\n",
			"was not heard", ""},
		{`{"address":"c:2","leader":"c:1","agents":[{"name":"a1","state":"up","address":"a:1","hosts":3}]}`,
			"3      -             -     -\n", "was not heard",
			"c:2 follows the coordinator at c:1, which was not asked"},
		{`{"address":"c:2","voting":true}`, "knows of no leader; 0 agents up", "AGENT",
			"no coordinator that answers leads"},
	} {
		s := new(coordination.Status)
		must.Do(t, json.Unmarshal([]byte(c.state), s))
		cmd := ClusterStatusCmd{Coordinator: []string{s.Address}}
		states, errs := []*coordination.Status{s}, []error{nil}
		var out strings.Builder
		must.Do(t, cmd.print(&out, states, errs))
		if got := out.String(); !strings.Contains(got, c.has) || strings.Contains(got, c.lacks) {
			t.Errorf("%s:\n%s", c.state, got)
		}
		err := cmd.judge(states, errs)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.state, err, c.err)
		}
	}
}
