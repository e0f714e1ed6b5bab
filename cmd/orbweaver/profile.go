package main

import (
	"errors"
	"os"
	"runtime/pprof"
)

// Profiles are the flags for processor and memory profiles.
type Profiles struct {
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"${cpuprofile}"`
	MemProfile string `name:"memprofile" placeholder:"FILE" help:"${memprofile}"`
}

// begin starts the profiles. end writes them; the caller must call it once.
func (p Profiles) begin() (end func() error, err error) {
	if p.CPUProfile == "" && p.MemProfile == "" {
		return func() error { return nil }, nil
	}
	var cpu *os.File
	if p.CPUProfile != "" {
		if cpu, err = os.Create(p.CPUProfile); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if p.MemProfile != "" {
			f, err := os.Create(p.MemProfile)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			// The profile shows the heap at the last garbage collection, while the crawl ran.
			errs = append(errs, pprof.Lookup("heap").WriteTo(f, 0), f.Close())
		}
		return errors.Join(errs...)
	}, nil
}
