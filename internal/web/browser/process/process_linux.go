package process

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// dieWithCrawler lets the kernel kill the browser when the crawler dies.
func dieWithCrawler(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have ended
	}
}

// A member is one process of a browser.
type member struct {
	pid     int
	private int64 // bytes of RAM that it shares with no other process
}

// maxMembers bounds how many processes of a browser are looked at.
const maxMembers = 1000

// members returns a process and all that descend from it.
func members(root int) (all []member) {
	pids := []int{root}
	for len(pids) > 0 && len(all) < maxMembers {
		pid := pids[0]
		pids = pids[1:]
		name := "/proc/" + strconv.Itoa(pid)
		sizes, err := os.ReadFile(name + "/statm") // total, resident, shared, in pages
		if err != nil {
			continue
		}
		m := member{pid: pid}
		if f := bytes.Fields(sizes); len(f) > 2 {
			resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
			shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
			m.private = max(0, resident-shared) * int64(os.Getpagesize())
		}
		all = append(all, m)
		threads, _ := os.ReadDir(name + "/task")
		for _, t := range threads {
			children, _ := os.ReadFile(name + "/task/" + t.Name() + "/children")
			for _, c := range bytes.Fields(children) {
				if pid, err := strconv.Atoi(string(c)); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return all
}

// ofProfile reports whether a process is still one of the browser of a profile.
func ofProfile(pid int, profile string) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.Contains(line, []byte(profile))
}
