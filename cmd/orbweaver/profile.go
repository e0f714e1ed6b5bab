package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/orbweaver/orbweaver/internal/input"
)

// Profiles are the flags for processor and memory profiles.
type Profiles struct {
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"${cpuprofile}" for:"run"`
	MemProfile string `name:"memprofile" placeholder:"FILE" help:"${memprofile}" for:"run"`
}

// begin creates the files and starts the profiles. end writes them; the caller must call it once.
// The errors name the flag and the file.
func (p Profiles) begin() (end func() error, err error) {
	cpu, err := createProfile("cpuprofile", p.CPUProfile)
	if err != nil {
		return nil, err
	}
	mem, err := createProfile("memprofile", p.MemProfile)
	if err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	if cpu != nil {
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close(), mem.Close())
		}
	}
	return func() error {
		if cpu != nil {
			pprof.StopCPUProfile()
		}
		if mem != nil {
			// The profile shows the heap at the last garbage collection, while the crawl ran.
			pprof.Lookup("heap").WriteTo(mem, 0) // mem keeps the error
		}
		return errors.Join(cpu.Close(), mem.Close())
	}, nil
}

// A profile is the open file of a profile. It keeps the first error of Write, because pprof drops
// the errors of processor profiles. A nil profile is not asked for. It implements io.Writer.
type profile struct {
	flag string
	file *os.File
	err  error
}

// createProfile creates the file of --flag. An empty name is no profile.
func createProfile(flag, name string) (*profile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, input.Errorf("--%s %s: %v; name a file that can be written", flag, name,
			cause(err))
	}
	return &profile{flag: flag, file: f}, nil
}

func (p *profile) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// Close closes the file and returns the first error of all.
func (p *profile) Close() error {
	if p == nil {
		return nil
	}
	err := p.file.Close()
	if p.err != nil {
		err = p.err
	}
	if err != nil {
		return fmt.Errorf("--%s %s: %w", p.flag, p.file.Name(), cause(err))
	}
	return nil
}
