package main

import (
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/orbweaver/orbweaver/lab"
)

// ChaosCmd implements "orblab chaos".
type ChaosCmd struct {
	Quick bool `help:"Tell 20 stories, unless --for or --stories is given."`
	lab.Chaos
	Share *float64 `name:"alone" placeholder:"SHARE" help:"Share of stories of a single agent, from 0 to 1 (default: a third)."`
	Out   string   `placeholder:"DIR" help:"${chaos_out}"`
}

// Help explains the result.
func (ChaosCmd) Help() string {
	return `The experiment tells stories: crawls in virtual time, of a single agent or of a
cluster, with one to three random faults, such as kills, power failures, lost machines
and bad networks. A judge checks the promises of each crawl. If a story fails, orblab
repeats it 20 times, makes its plan as small as it can, and ends with exit code 1.

  orblab chaos --quick --out /tmp/lab
  orblab chaos --for 40m --append docs/lab/chaos.jsonl
  orblab chaos --plan '{"Seed":7,"Agents":3,"Faults":[{"Kind":"kill","Agent":2,"At":0.5}]}'

What people write below the marker in chaos.md stays.`
}

// Run runs the experiment.
func (c *ChaosCmd) Run(out io.Writer) error {
	c.Alone = 0.3333333333 // a third; with another value the seeds would have other stories
	if c.Share != nil {
		c.Alone = *c.Share
	}
	switch {
	case c.Time < 0 || c.Stories < 0 || c.Jobs < 0:
		return usageErrorf("--for, --stories and --jobs: give values above 0")
	case !(c.Alone >= 0 && c.Alone <= 1):
		return usageErrorf("--alone %v: give a share from 0 to 1", c.Alone)
	case c.Partition != "" && c.Append != "":
		return usageErrorf("--partition changes the stories of seeds; remove --append")
	case c.Plan != "" && (c.Time > 0 || c.Stories > 0 || c.Append != ""):
		return usageErrorf("--plan repeats one story; remove --for, --stories and --append")
	}
	if err := makeDir(c.Profiles); err != nil {
		return err
	}
	f := flags{Quick: c.Quick, Seed: c.Seed, Out: c.Out}
	if c.Plan != "" && c.Out == "" {
		f.Out = os.TempDir() // the command writes no results
	}
	c.Commit = commit()
	return f.measure(out, false, &c.Chaos)
}

// ChaosStoryCmd implements "orblab chaos-story": a worker process that runs stories.
type ChaosStoryCmd struct {
	Events     string `required:"" help:"Write the events of the story under way to this file."`
	CPUProfile string `name:"cpuprofile" help:"Write a processor profile to this file."`
}

// Run runs the stories whose plans it reads from standard input, and ends the process.
func (c *ChaosStoryCmd) Run() error {
	lab.TellStories(os.Stdin, c.Events, c.CPUProfile)
	return nil
}

// commit returns the commit of the checkout around the working directory, with a + if files
// differ from it, or empty if there is none.
func commit() string {
	root := checkout()
	if root == "" {
		return ""
	}
	git := exec.Command("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+")
	git.Dir = root
	out, err := git.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
