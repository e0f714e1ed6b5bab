package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mark is the variable by which the processes of a round are found. Its value is the round's folder.
const mark = "ORBWEAVER_SOAK_ROUND"

// patience is the time between the request to end and the kill.
const patience = 300 * time.Millisecond

// grace is how long a command may take beyond its own limit. It has the time to build.
const grace = 10 * time.Minute

// execute runs the command of a round in the root and waits for it. If ctx ends, or if the command
// takes too long, it ends all processes of the round.
func execute(ctx context.Context, root string, env []string, rd round) result {
	res := result{round: rd}
	temp, err := os.MkdirTemp("", "soak-")
	if err != nil {
		res.err = err
		return res
	}
	res.temp = temp
	if res.err = os.Chmod(temp, 0o777|os.ModeSticky); res.err != nil { // as /tmp: some tests act as another user
		return res
	}
	seed := strconv.FormatUint(rd.seed, 10)
	args := rd.step.command(seed, temp)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &stdout, &stderr
	cmd.Env = append(env[:len(env):len(env)], rd.step.env...)
	cmd.Env = append(cmd.Env, seedVariable+"="+seed, "TMPDIR="+temp, mark+"="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // a process that is left may have the pipes
	if res.err = cmd.Start(); res.err != nil {
		return res
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	late := time.NewTimer(rd.step.limit + grace)
	defer late.Stop()
	var left error
	select {
	case left = <-done:
	case <-ctx.Done():
		res.ended = true
	case <-late.C:
		res.late = true
	}
	if res.ended || res.late {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(patience):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			killMarked(temp)
			<-done
		}
	} else if ctx.Err() != nil {
		res.ended = true // Ctrl-C reaches programs that read the terminal, too
	}
	killMarked(temp)
	res.took = time.Since(rd.began)
	res.stdout, res.stderr = stdout.String(), stderr.String()
	res.code = cmd.ProcessState.ExitCode()
	if exit := (*exec.ExitError)(nil); left != nil && !errors.As(left, &exit) && !errors.Is(left, exec.ErrWaitDelay) {
		res.err = left
	}
	return res
}

// killMarked kills the processes of a round that are in other process groups. It finds them only on
// Linux.
func killMarked(temp string) {
	want := []byte(mark + "=" + temp)
	for range 10 { // they may start others
		names, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return
		}
		found := false
		for _, name := range names {
			env, err := os.ReadFile(name)
			if err != nil {
				continue // it ended, or belongs to another user
			}
			for v := range bytes.SplitSeq(env, []byte{0}) {
				if bytes.Equal(v, want) {
					pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
					if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
						found = true
					}
				}
			}
		}
		if !found {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// quoted returns a command for a shell.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.ContainsAny(a, " \t\n'\"$&|()<>;*?[]{}^#~`\\") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// withSeed returns a shell's command that repeats a command with a seed.
func withSeed(seed uint64, args []string) string {
	return fmt.Sprintf("ORBWEAVER_SOAK=true %s=%d %s", seedVariable, seed, quoted(args))
}

// seedVariable is that of package testseed.
const seedVariable = "ORBWEAVER_TEST_SEED"
