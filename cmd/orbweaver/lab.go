package main

import (
	"context"
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// LabCmd is "lab": the experiments.
type LabCmd struct {
	Web LabWebCmd `cmd:"" hidden:"" help:"Serve the web of an experiment."`
}

// LabWebCmd is "lab web": the process that an experiment starts for its web.
type LabWebCmd struct {
	Spec  string `arg:"" help:"The web, as JSON."`
	CAOut string `required:"" placeholder:"FILE" help:"Write the certificate of the web's own authority here."`
}

// Run serves until a signal comes.
func (c *LabWebCmd) Run(out io.Writer) error {
	return lab.ServeWeb(context.Background(), []byte(c.Spec), c.CAOut, out)
}
