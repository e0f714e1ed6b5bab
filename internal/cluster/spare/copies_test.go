package spare

import (
	"errors"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestCopyMustFit: an agent begins no copy of a file that its disk cannot hold.
func TestCopyMustFit(t *testing.T) {
	c := NewCopies(Config{FS: testdisk.NewMem(), Dir: t.TempDir(),
		Members: &members.Members{Self: gossip.Agent{Name: "a1"}}})
	part := &pb.CopyRequest{Kind: kindPart, Data: []byte("x"),
		File: &pb.CopyFile{Name: "x.warc.gz", Size: maxFileSize, Digest: make([]byte, 32)}}
	var refusal *rpc.Refusal
	if have, err := c.keep("a2", part); !errors.As(err, &refusal) || refusal.Reason != "full" {
		t.Errorf("a file of 2^50 bytes: %d, %v", have, err)
	}
}

// TestForeignList: an agent asks nobody for the pages of a list that has not the name of an archive.
func TestForeignList(t *testing.T) {
	c := NewCopies(Config{FS: testdisk.NewMem(), Dir: "/crawl"})
	pages := []link.Link{{URL: weburl.MustParse("http://a.example/")}}
	for _, name := range []string{"", "a2", "a2-", "a2-0102030", "a2-010203zz", "a2-0102030405", "../a2-01020304"} {
		if has, err := c.ask(t.Context(), nil, name, pages); len(has) != 1 || has[0] || err != nil {
			t.Errorf("%q: %v, %v", name, has, err)
		}
	}
}
