package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/stores"
)

// StoreCmd implements "store".
type StoreCmd struct {
	Check StoreCheckCmd `cmd:"" help:"Try what a crawl does with a store, and print what works and what is missing."`
}

// Help names the kinds of stores.
func (StoreCmd) Help() string {
	return `A store is a prefix of a bucket of S3, or a directory that is mounted:

  orbweaver store check s3://bucket/prefix
  orbweaver store check file:///mnt/archive

S3 takes the endpoint from AWS_ENDPOINT_URL_S3, the region from AWS_REGION, and
the credentials from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the
profile AWS_PROFILE in ~/.aws, or from the role of the machine.`
}

// StoreCheckCmd implements "store check".
type StoreCheckCmd struct {
	StoreOption []string      `help:"Send files with this option of S3, as in \"orbweaver crawl\"." sep:"none" placeholder:"NAME=VALUE"`
	Timeout     time.Duration `help:"Give up after D (default: ${default})." default:"1m" placeholder:"D"`
	Store       string        `arg:"" help:"Try this store: s3://BUCKET/PREFIX or file:///DIRECTORY."`
}

// processEnv has the variables of this process.
type processEnv struct{}

func (processEnv) LookupEnv(name string) (string, bool) { return os.LookupEnv(name) }

// placeOf returns the store of a URL, for the user of this process.
func placeOf(url string) stores.Place {
	p := stores.Place{URL: url, Env: processEnv{}}
	p.S3.Agent = "orbweaver/" + strings.ReplaceAll(node.Version, " ", "-")
	return p
}

// Run prints what the store can do. The exit code is 1 if a crawl cannot use it.
func (c *StoreCheckCmd) Run(out io.Writer) error {
	p := placeOf(c.Store)
	p.Options = c.StoreOption
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	s, found, err := stores.TryOut(ctx, disk.OS, p)
	if err != nil {
		return bad("%v", err)
	}
	usable, err := stores.Print(out, s, found)
	if err == nil && !usable {
		err = &exitError{code: exitOther}
	}
	return err
}
