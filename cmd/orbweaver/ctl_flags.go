package main

import (
	"io"
	"os"
	"os/user"
	"strings"
	"unicode"

	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// HostArg is the host argument of a command.
type HostArg struct {
	Host string `arg:"" help:"Name this host, such as www.example.org; a URL means its host."`
}

// AgentFlag chooses an agent.
type AgentFlag struct {
	Agent string `help:"${ctl_agent}" placeholder:"AGENT"`
}

// ByFlag names who gives a command. Each command that changes something has it, and no other.
type ByFlag struct {
	By string `help:"${ctl_by}" placeholder:"WHO"`
}

// AfterApply checks the name, and keeps it for the calls.
func (b ByFlag) AfterApply(c *commands) error {
	by := strings.TrimSpace(b.By)
	switch {
	case len(by) > admin.MaxBy:
		return bad("--by: the name has %d bytes; give at most %d", len(by), admin.MaxBy)
	case strings.ContainsFunc(by, unicode.IsControl):
		return bad("--by %.80q: give a name without control characters", by)
	}
	c.Ctl.by = by
	return nil
}

// me returns the person who runs the program, such as alice@host. With sudo, it is the person who called sudo.
func me() string {
	name := os.Getenv("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}

// WhyFlag is the reason for a command.
type WhyFlag struct {
	Why    string `help:"${ctl_why}" placeholder:"TEXT"`
	ByFlag `embed:""`
}

// JSONFlag makes a command print what it has done for programs.
type JSONFlag struct {
	JSON bool `name:"json" help:"Print the order and the answers as one JSON object."`
}

// print prints the answers of agents. With --json they are an object of the form that each command of this kind has.
// The error says which agents have not done as told.
func (j JSONFlag) print(out io.Writer, answers []*pb.Answer) error {
	if j.JSON {
		if err := writeMessage(out, &pb.GiveResponse{Answers: answers}); err != nil {
			return err
		}
		return refusals(answers)
	}
	return printAnswers(out, answers)
}
