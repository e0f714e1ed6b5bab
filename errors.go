package orbweaver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/settings"
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

// A ConfigError tells which option is wrong. The errors of Crawl and of the functions that return ErrOptions may wrap
// one.
type ConfigError struct {
	Field   string // such as "Options.Cluster.Kappa"; "" if no single option is wrong
	Value   string // as it was given; "" if there is none, or if Problem tells it
	Problem string // with Field and Value, such as "Options.Cluster.Kappa 0: give a number from 1 to 1000"
	Remedy  string // what would be right; "" if Problem says it
	err     error
}

func (e *ConfigError) Error() string {
	if e.Remedy == "" {
		return e.Problem
	}
	return e.Problem + "; " + e.Remedy
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.err }

// explain turns an error of internal/node into one of this package.
func explain(err error) error {
	bad, wrong := errors.AsType[*input.ConfigError](err)
	_, ours := errors.AsType[*crawlError](err)
	switch {
	case err == nil || ours:
		return err
	case errors.Is(err, disk.ErrLocked):
		return &crawlError{ErrInUse, input.Text(err, optionOf), err}
	case wrong:
		e := &ConfigError{Value: bad.Value, Problem: bad.Problem(optionOf), Remedy: bad.Remedy(optionOf), err: err}
		if bad.Field != "" {
			e.Field = optionOf(bad.Field)
		}
		return &crawlError{ErrOptions, e.Error(), e}
	case disk.IsFull(err):
		return &crawlError{ErrDiskFull, err.Error(), err}
	}
	return fmt.Errorf("orbweaver: %w", err)
}

// canceled is the error of a crawl that ended because ctx is done.
func canceled(ctx context.Context) error { return fmt.Errorf("orbweaver: %w", context.Cause(ctx)) }

// ownOptions are the options of settings that a crawl of the program has in another way.
var ownOptions = map[string]string{"dir": "Options.Dir", "seeds": "Options.Seeds",
	"overwrite": "Options.Overwrite", "delay-min": "Options.Delay", "ip-delay": "Options.Delay",
	"site-delay": "Options.Delay", "strategy": "Options.Strategy"}

// optionOf returns how a program gives a setting. A setting without an option keeps its name.
func optionOf(field string) string {
	option := ownOptions[field]
	for o := range settings.All() {
		if o.Name == field && option == "" {
			option = o.Option()
		}
	}
	of, name, _ := strings.Cut(option, ".")
	switch {
	case option == "" && field == "resume":
		return "another call of Crawl"
	case option == "":
		return field
	case of == "Options":
		return option
	}
	return of + "Options." + name
}
