package orbweaver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Errors of Crawl. Test for them with errors.Is.
var (
	// ErrOptions means that an option has a value that it cannot have. The text says which
	// option, and what would be right. Nothing was fetched.
	ErrOptions = errors.New("bad options")
	// ErrInUse means that another call of Crawl, in this process or in another one, uses
	// Options.Dir.
	ErrInUse = errors.New("the directory is in use")
	// ErrDiskFull means that the disk has no space for the crawl's files. Free space and call Crawl
	// again: nothing is lost.
	ErrDiskFull = errors.New("the disk is full")
	// ErrNothingFetched means that no URL could be fetched. Result.FailedSeeds says why.
	ErrNothingFetched = errors.New("nothing could be fetched")
)

// ErrStop ends the crawl without an error if OnPage returns it, alone or wrapped. The page
// is finished. Crawl returns a Result with the Stop reason Stopped.
var ErrStop = errors.New("stop the crawl")

// A crawlError is an error above with a text of its own.
type crawlError struct {
	kind error
	text string
	err  error // the cause
}

func (e *crawlError) Error() string   { return "orbweaver: " + e.text }
func (e *crawlError) Unwrap() []error { return []error{e.kind, e.err} }

func badOption(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &crawlError{ErrOptions, err.Error(), err}
}

// explain turns an error of internal/node into one of this package.
func explain(err error) error {
	if bad, ok := errors.AsType[*input.Error](err); ok {
		return &crawlError{ErrOptions, inOptions(bad.Text), err}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, disk.ErrLocked):
		return &crawlError{ErrInUse, inOptions(err.Error()), err}
	case disk.IsFull(err):
		return &crawlError{ErrDiskFull, err.Error(), err}
	}
	return fmt.Errorf("orbweaver: %w", err)
}

// canceled is the error of a crawl that ended because ctx is done.
func canceled(ctx context.Context) error { return fmt.Errorf("orbweaver: %w", context.Cause(ctx)) }

var flag = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// optionOf names the option that stands for a flag in an error's text.
var optionOf = map[string]string{
	"--agents":          "Options.Cluster.Agents",
	"--blacklist":       "Options.Blacklist",
	"--boundary":        "Options.Cluster.Boundary",
	"--host-page-limit": "Options.HostPageLimit",
	"--near-duplicates": "Options.NearDuplicates",
	"--connect-to":      "Options.ConnectTo",
	"--archive-copies":  "Options.Cluster.ArchiveCopies",
	"--contact":         "Options.Contact",
	"--content-hash":    "Options.Cluster.ContentHash",
	"--coordinator":     "Options.Cluster.Coordinators",
	"--coverage":        "Options.Cluster.TwoLevel",
	"--dir":             "Options.Dir",
	"--dns":             "Options.DNS",
	"--exclude":         "Options.Scope.Exclude",
	"--founder":         "Options.Cluster.Founder",
	"--include":         "Options.Scope.Include",
	"--host-share":      "Options.HostShare",
	"--ip-delay":        "Options.Delay",
	"--join":            "Options.Cluster.Join",
	"--kappa":           "Options.Cluster.Kappa",
	"--keys":            "Options.Cluster.Keys",
	"--listen":          "Options.Cluster.Listen",
	"--model":           "FocusedOptions.Model",
	"--name":            "Options.Cluster.Name",
	"--obey-noarchive":  "Options.ObeyNoArchive",
	"--on-loss":         "Options.Cluster.OnLoss",
	"--overwrite":       "Options.Overwrite",
	"--partition":       "Options.Cluster.Partition",
	"--proxy":           "Options.Proxy",
	"--rate":            "Options.Rate",
	"--replicas":        "Options.Cluster.Replicas",
	"--resume":          "another call of Crawl",
	"--robots-agent":    "Options.RobotsAgent",
	"--scope":           "Options.Scope",
	"--seeds":           "Options.Seeds",
	"--site-delay":      "Options.Delay",
	"--strategy":        "Options.Strategy",
	"--time-limit":      "Options.TimeLimit",
	"--user-agent":      "Options.UserAgent",
	"--workers":         "Options.Workers",
}

// adviceFor rewrites the advice of an error's text, from the program's flags to Options.
var adviceFor = strings.NewReplacer(
	"give at least one URL, or a file of URLs with --seeds", "give at least one URL in Options.Seeds",
	"continue it with its --name and --listen", "continue it with Options.Cluster, with the agent's Name and Listen",
)

// inOptions replaces flags by the names of options, and removes advice that a program cannot
// follow.
func inOptions(text string) string {
	text = adviceFor.Replace(text)
	return flag.ReplaceAllStringFunc(text, func(f string) string {
		if option, ok := optionOf[f]; ok {
			return option
		}
		return f
	})
}
