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
	PathStyle bool          `help:"Name the bucket in the path of requests, not in the name of the host."`
	Timeout   time.Duration `help:"Give up after D (default: ${default})." default:"1m" placeholder:"D"`
	Store     string        `arg:"" help:"Try this store: s3://BUCKET/PREFIX or file:///DIRECTORY."`
}

// processEnv has the variables of this process.
type processEnv struct{}

func (processEnv) LookupEnv(name string) (string, bool) { return os.LookupEnv(name) }

// placeOf returns the store of a URL, for the user of this process.
func placeOf(url string, pathStyle bool) stores.Place {
	p := stores.Place{URL: url, Env: processEnv{}}
	p.S3.PathStyle, p.S3.Agent = pathStyle, "orbweaver/"+strings.ReplaceAll(node.Version, " ", "-")
	return p
}

// Run prints what the store can do. The exit code is 1 if a crawl cannot use it.
func (c *StoreCheckCmd) Run(out io.Writer) error {
	s, err := stores.Open(disk.OS, placeOf(c.Store, c.PathStyle), stores.CheckConfig)
	if err != nil {
		return bad("%v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	usable, err := stores.Print(out, s, stores.Check(ctx, s))
	if err == nil && !usable {
		err = &exitError{code: exitOther}
	}
	return err
}
