//go:build !linux

package process

import "os/exec"

// dieWithCrawler does nothing: the browser ends when its pipes are closed.
func dieWithCrawler(*exec.Cmd) {}

func kill(int) {}

// A member is one process of a browser.
type member struct {
	pid     int
	private int64
}

// members returns nothing: this system does not tell.
func members(int) []member { return nil }

func ofProfile(int, string) bool { return false }
