package operate

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// decode reads the request of an Answer and checks its numbers and sizes. Another agent sends it, which need not have
// the checks of this one's calls: it may be of another version, or damaged.
func decode(method string, request []byte, q proto.Message) error {
	err := inbound.Unmarshal(request, q, inbound.MaxFields)
	if err == nil {
		err = checkBounds(q)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// A bound is a number of a request with the values that are possible.
type bound struct {
	name    string
	n, most int64
}

// maxInt64 bounds a number that may be as large as it likes.
const maxInt64 = 1<<63 - 1

// checkBounds returns an error if a number of a request is negative or too large.
func checkBounds(q proto.Message) error {
	var bounds []bound
	switch q := q.(type) {
	case *pb.HostsRequest: // one more than a page tells whether there is another
		bounds = []bound{{"limit", int64(q.Limit), mostRows + 1}, {"search", int64(len(q.Search)), mostSearch}}
	case *pb.EventsPageRequest:
		bounds = []bound{{"last", int64(q.Last), mostEvents}}
	case *pb.LogRequest:
		bounds = []bound{{"limit", int64(q.Limit), mostRows}}
	case *pb.CapturesRequest:
		bounds = []bound{{"limit", int64(q.Limit), mostRows + 1}}
	case *pb.RecordRequest:
		bounds = []bound{{"offset", q.Offset, maxInt64}, {"from", q.From, maxInt64}, {"most", int64(q.Most), mostBody}}
	case *pb.HistoryRequest:
		bounds = []bound{{"minutes", int64(q.Minutes), maxInt64}, {"points", int64(q.Points), mostPoints}}
	case *pb.BlacklistsRequest:
		bounds = []bound{{"limit", int64(q.Limit), mostRows}, {"search", int64(len(q.Search)), mostSearch}}
	case *pb.AddSeedsRequest:
		bounds = []bound{{"urls", int64(len(q.Urls)), seedsMost}}
	case *pb.ListQueue:
		bounds = []bound{{"from", q.From, maxInt64}, {"limit", int64(q.Limit), queueMost},
			{"pattern", int64(len(q.Pattern)), orders.MaxAbout}}
	case *pb.TakeFeed:
		bounds = []bound{{"urls", int64(len(q.Urls)), feedMost}}
	case *pb.ListPages:
		bounds = []bound{{"from", q.From, maxInt64}, {"limit", int64(q.Limit), pagesMost},
			{"wait_ms", q.WaitMs, patience.Milliseconds()}}
	case *pb.ListBodies:
		bounds = []bound{{"parts", int64(len(q.Parts)), pagesMost}}
		for _, p := range q.Parts {
			bounds = append(bounds, bound{"offset", p.Offset, maxInt64}, bound{"skip", p.Skip, maxInt64},
				bound{"most", p.Most, maxInt64})
		}
	case *pb.AcknowledgePages:
		bounds = []bound{{"position", q.Position, maxInt64}}
	}
	for _, b := range bounds {
		if b.n < 0 || b.n > b.most {
			return fmt.Errorf("%s %d: 0 to %d are possible", b.name, b.n, b.most)
		}
	}
	return nil
}
