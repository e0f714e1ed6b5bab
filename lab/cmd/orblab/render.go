package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/lab"
)

// RenderCmd implements "orblab render".
type RenderCmd struct {
	Files []string `arg:"" placeholder:"FILE" help:"Read the data in these files, NAME.csv. Several of one experiment add up."`
	Out   string   `placeholder:"DIR" help:"Write the files to DIR (default: the folder of the first FILE)."`
}

// Run renders the data.
func (c *RenderCmd) Run() error {
	var all *lab.Data
	for _, name := range c.Files {
		f, err := os.Open(name)
		if err != nil {
			return &usageError{err.Error()}
		}
		d, err := lab.ReadData(f)
		f.Close()
		if err == nil {
			all, err = lab.AddUp(all, d)
		}
		if err != nil {
			return usageErrorf("%s: %v", name, err)
		}
	}
	if c.Out == "" {
		c.Out = filepath.Dir(c.Files[0])
	}
	_, err := lab.Render(all, c.Out)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}
