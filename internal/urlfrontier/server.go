package urlfrontier

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// A service answers the calls of the API. Calls that it does not have are UNIMPLEMENTED.
type service struct {
	pb.UnimplementedURLFrontierHandler
	s     *Store
	addr  string
	clock clock.Clock
}

func (v *service) millis() int64 { return v.clock.Now().UnixMilli() }

// fault gives an error its code.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errArgument):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.Is(err, errFull):
		return connect.NewError(connect.CodeResourceExhausted, err)
	}
	return connect.NewError(connect.CodeUnavailable, err)
}

// durable answers a call whose change has this number.
func (v *service) durable(change uint64, err error) error {
	if err == nil {
		err = v.s.commit(change)
	}
	return fault(err)
}

func (v *service) ListNodes(context.Context, *pb.Empty) (*pb.StringList, error) {
	return &pb.StringList{Values: []string{v.addr}}, nil
}

// waiting bounds the acknowledgements of a stream that wait for a sync, and waitingBytes their texts. Beyond that, no
// more URLs are read.
const (
	waiting      = 4096
	waitingBytes = 512 << 10
)

// ackBytes is what an acknowledgement takes of waitingBytes. A very long text waits until it is alone.
func ackBytes(id string) int64 { return int64(min(len(id), waitingBytes)) }

// PutURLs reads URLs and acknowledges them as soon as they are durable. A sync serves all that wait for it.
func (v *service) PutURLs(ctx context.Context, stream *connect.BidiStream[pb.URLItem, pb.AckMessage]) error {
	type ack struct {
		msg    *pb.AckMessage
		change uint64
	}
	acks := make(chan ack, waiting)
	room := semaphore.NewWeighted(waitingBytes)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		defer cancel() // the reader gives up
		var batch []ack
		for a := range acks {
			batch = append(batch[:0], a)
		more:
			for len(batch) < waiting {
				select {
				case a, ok := <-acks:
					if !ok {
						break more
					}
					batch = append(batch, a)
				default:
					break more
				}
			}
			last := uint64(0)
			for _, a := range batch {
				last = max(last, a.change)
			}
			err := fault(v.s.commit(last))
			for _, a := range batch {
				if err == nil {
					err = stream.Send(a.msg)
				}
				room.Release(ackBytes(a.msg.ID))
			}
			clear(batch)
			if err != nil {
				sent <- err
				cut(ctx) // the client may be silent
				return
			}
		}
		sent <- nil
	}()
	read := func() error {
		for {
			item, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			status, change, err := v.s.Put(item, v.millis())
			if err != nil {
				return fault(err)
			}
			id := item.ID
			if info, _ := infoOf(item); id == "" && info != nil {
				id = info.Url
			}
			if err := room.Acquire(ctx, ackBytes(id)); err != nil {
				return err
			}
			select {
			case acks <- ack{&pb.AckMessage{ID: id, Status: status}, change}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	err := read()
	close(acks)
	if serr := <-sent; serr != nil {
		return serr
	}
	return err
}

// GetURLs leases URLs that are due.
func (v *service) GetURLs(_ context.Context, q *pb.GetParams, stream *connect.ServerStream[pb.URLInfo]) error {
	w := Want{Key: q.Key, Queues: int(q.MaxQueues), URLs: int(q.MaxUrlsPerQueue), Lease: int64(q.DelayRequestable)}
	if _, ok := q.Item.(*pb.GetParams_CrawlID); ok || q.Key != "" {
		id, err := crawlID(q.GetCrawlID())
		if err != nil {
			return fault(err)
		}
		w.Crawl = id
	} else {
		w.Any = true
	}
	taken, change, err := v.s.Take(w, v.millis())
	if err := v.durable(change, err); err != nil {
		return err
	}
	for i := range taken {
		if err := stream.Send(taken[i].info()); err != nil {
			return err
		}
	}
	return nil
}

func (v *service) BlockQueueUntil(_ context.Context, q *pb.BlockQueueParams) (*pb.Empty, error) {
	change, err := v.s.set(q.CrawlID, q.Key, func(m *pb.Queue) { m.BlockedUntilS = min(q.Time, maxDate) })
	return &pb.Empty{}, v.durable(change, err)
}

func (v *service) SetCrawlLimit(_ context.Context, q *pb.CrawlLimitParams) (*pb.Empty, error) {
	change, err := v.s.set(q.CrawlID, q.Key, func(m *pb.Queue) { m.Limit = q.Limit })
	return &pb.Empty{}, v.durable(change, err)
}

func (v *service) SetDelay(_ context.Context, q *pb.QueueDelayParams) (*pb.Empty, error) {
	if q.Key == "" {
		change, err := v.s.setGeneral(func(m *pb.General) { m.DelayS = q.DelayRequestable })
		return &pb.Empty{}, v.durable(change, err)
	}
	change, err := v.s.set(q.CrawlID, q.Key, func(m *pb.Queue) { m.DelayS = &q.DelayRequestable })
	return &pb.Empty{}, v.durable(change, err)
}

func (v *service) SetActive(_ context.Context, q *pb.Active) (*pb.Empty, error) {
	change, err := v.s.setGeneral(func(m *pb.General) { m.Inactive = !q.State })
	return &pb.Empty{}, v.durable(change, err)
}

func (v *service) GetActive(context.Context, *pb.Local) (*pb.Boolean, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return &pb.Boolean{State: !v.s.inactive}, fault(v.s.err)
}

func (v *service) DeleteQueue(_ context.Context, q *pb.QueueWithinCrawlParams) (*pb.Long, error) {
	n, change, err := v.s.remove(q.CrawlID, &q.Key)
	return &pb.Long{Value: uint64(n)}, v.durable(change, err)
}

func (v *service) DeleteCrawl(_ context.Context, q *pb.DeleteCrawlMessage) (*pb.Long, error) {
	n, change, err := v.s.remove(q.Value, nil)
	return &pb.Long{Value: uint64(n)}, v.durable(change, err)
}

func (v *service) ListCrawls(context.Context, *pb.Local) (*pb.StringList, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return &pb.StringList{Values: sortedIDs(v.s.crawls)}, fault(v.s.err)
}

// page is the length of a list, if the client names none. namesMost bounds the bytes of its names.
const (
	page      = 100
	namesMost = 1 << 20
)

func (v *service) ListQueues(_ context.Context, p *pb.Pagination) (*pb.QueueList, error) {
	id, err := crawlID(p.CrawlID)
	if err != nil {
		return nil, fault(err)
	}
	size := cmp.Or(uint64(p.Size), page)
	out := &pb.QueueList{Start: p.Start, CrawlID: id}
	now, left := v.millis(), namesMost
	err = v.s.each(id, "", func(q *queue) bool {
		if p.IncludeInactive || q.active(now) {
			if out.Total >= uint64(p.Start) && uint64(len(out.Values)) < size && left > 0 {
				out.Values = append(out.Values, q.key)
				left -= len(q.key) + 16 // of the list's own
			}
			out.Total++
		}
		return true
	})
	out.Size = uint32(len(out.Values))
	return out, fault(err)
}

// each calls fn for the queues of a crawl, or for one of them, until fn returns false. It holds the lock meanwhile.
func (s *Store) each(id, key string, fn func(*queue) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.crawls[id]
	if s.err != nil || c == nil {
		return s.err
	}
	if key != "" {
		if q := c.queues[key]; q != nil {
			fn(q)
		}
		return nil
	}
	for _, q := range c.list {
		if !fn(q) {
			break
		}
	}
	return nil
}

func (v *service) GetStats(_ context.Context, p *pb.QueueWithinCrawlParams) (*pb.Stats, error) {
	id, err := crawlID(p.CrawlID)
	if err != nil {
		return nil, fault(err)
	}
	now := v.millis()
	out := &pb.Stats{CrawlID: id}
	completed, active := 0, 0
	err = v.s.each(id, p.Key, func(q *queue) bool {
		left := len(q.all) - q.completed
		out.Size += uint64(left)
		out.InProcess += uint32(q.inProcess(now))
		out.NumberOfQueues++
		if completed += q.completed; left > 0 {
			active++
		}
		return true
	})
	out.Counts = map[string]uint64{"completed": uint64(completed), "active_queues": uint64(active)}
	return out, fault(err)
}

func (v *service) GetURLStatus(_ context.Context, p *pb.URLStatusRequest) (*pb.URLItem, error) {
	id, err := crawlID(p.CrawlID)
	if err != nil {
		return nil, fault(err)
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.s.err != nil {
		return nil, fault(v.s.err)
	}
	if c := v.s.crawls[id]; c != nil {
		if e := c.urls[p.Url]; e != nil && (p.Key == "" || p.Key == e.q.key) {
			return e.item(), nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("the URL is not known in this crawl and queue"))
}

// fits returns whether a URL has the filter as a part. No filter fits all.
func fits(filter string, ignoreCase bool) func(url string) bool {
	if ignoreCase {
		filter = strings.ToLower(filter)
		return func(url string) bool { return strings.Contains(strings.ToLower(url), filter) }
	}
	return func(url string) bool { return strings.Contains(url, filter) }
}

// listedAtOnce is the number of URLs that ListURLs gathers while other calls wait.
const listedAtOnce = 1000

func (v *service) ListURLs(_ context.Context, p *pb.ListUrlParams, stream *connect.ServerStream[pb.URLItem]) error {
	id, err := crawlID(p.CrawlID)
	if err != nil {
		return fault(err)
	}
	left := cmp.Or(uint64(p.Size), page)
	fit := fits(p.GetFilter(), p.GetIgnoreCase())
	for start := uint64(p.Start); left > 0; {
		var listed []entry // copies, see Take
		seen, most := uint64(0), min(left, listedAtOnce)
		err := v.s.each(id, p.Key, func(q *queue) bool {
			if p.GetFilter() == "" && seen+uint64(len(q.all)) <= start {
				seen += uint64(len(q.all))
				return true
			}
			for _, e := range q.all {
				if !fit(e.url) {
					continue
				}
				if seen >= start {
					listed = append(listed, *e)
				}
				if seen++; uint64(len(listed)) == most {
					return false
				}
			}
			return true
		})
		if err != nil {
			return fault(err)
		}
		for i := range listed {
			if err := stream.Send(listed[i].item()); err != nil {
				return err
			}
		}
		if uint64(len(listed)) < most {
			return nil
		}
		start, left = start+most, left-most
	}
	return nil
}

func (v *service) CountURLs(_ context.Context, p *pb.CountUrlParams) (*pb.Long, error) {
	id, err := crawlID(p.CrawlID)
	if err != nil {
		return nil, fault(err)
	}
	fit := fits(p.GetFilter(), p.GetIgnoreCase())
	n := 0
	err = v.s.each(id, p.Key, func(q *queue) bool {
		if p.GetFilter() == "" {
			n += len(q.all)
			return true
		}
		for _, e := range q.all {
			if fit(e.url) {
				n++
			}
		}
		return true
	})
	return &pb.Long{Value: uint64(n)}, fault(err)
}

func (v *service) SetLogLevel(context.Context, *pb.LogLevelParams) (*pb.Empty, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this server has no log of packages"))
}
