package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestManyFollow: more agents than there are places for quick calls wait in Follow, and other calls succeed. A caller
// with too many Follows keeps no other caller out, and gets its places back.
func TestManyFollow(t *testing.T) {
	const quick, asked = 128, 4 // places of a server for quick calls, and for the Follows of one caller
	inMemory(t, func(t *testing.T, _ *simnet.Network, here *simnet.Machine) {
		var waiting atomic.Int64
		block := make(chan struct{})
		l, s := coordinator(t, here, "127.0.0.1:7480", nil,
			func(call string, _ rpc.Caller, _ any) (any, error) {
				if call == "Follow" {
					waiting.Add(1)
					<-block
				}
				return nil, nil
			})
		asks := func(name string, call rpc.Call) error {
			return ask(t.Context(), client(t, nil, caller(name), here.Dial).Coordinator(l.Addr()), call)
		}
		var wg sync.WaitGroup
		follow := func(name string) {
			wg.Go(func() {
				if err := asks(name, rpc.CallFollow); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		for i := range quick + 1 {
			follow(fmt.Sprint("a", i))
		}
		want := int64(quick + 1)
		for round := range 2 {
			for range asked {
				follow("greedy")
			}
			synctest.Wait()
			if err := asks("greedy", rpc.CallFollow); !errors.Is(err, rpc.ErrUnreachable) {
				t.Errorf("one more Follow of the greedy agent: %v", err)
			}
			if err := asks("late", rpc.CallStatus); err != nil {
				t.Errorf("Status: %v", err)
			}
			follow("late")
			synctest.Wait()
			if want += asked + 1; waiting.Load() != want || s.Counts().Refused["busy"] != uint64(round+1) {
				t.Errorf("%d follow, want %d, and %d are refused", waiting.Load(), want, s.Counts().Refused["busy"])
			}
			close(block)
			wg.Wait()
			block = make(chan struct{})
		}
		close(block)
	})
}

// TestFollowTime: Follow ends after 3 s without an answer. An answer that has begun may take longer on a slow line.
func TestFollowTime(t *testing.T) {
	entries := make([]byte, rpc.MaxData)
	rng := testseed.Rand(t)
	for i := range entries {
		entries[i] = byte(rng.Uint32())
	}
	for _, silent := range []bool{false, true} {
		inMemory(t, func(t *testing.T, network *simnet.Network, here *simnet.Machine) {
			network.Follow(func(int, int) simnet.Path { return simnet.Path{Rate: 64 << 10} })
			l, err := rpc.ListenCoordinator(here, "127.0.0.1:7480", nil)
			must.Do(t, err)
			s := rpc.NewServer(l, rpc.ServerConfig{Crawl: func() rpc.ID { return theCrawl }, MemoryBytes: 1})
			follow := rpc.Method[pb.FollowRequest, pb.FollowResponse]{Call: rpc.CallFollow}
			follow.Serve(s, func(ctx context.Context, _ rpc.Caller, q *pb.FollowRequest) (*pb.FollowResponse, error) {
				wait := rpc.MaxFollow
				if silent {
					wait = time.Hour
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
				return &pb.FollowResponse{Entries: entries}, ctx.Err()
			})
			run(t, l, s)
			began := time.Now()
			out, err := follow.Ask(t.Context(), client(t, nil, caller("a1"), here.Dial).Coordinator(l.Addr()),
				new(pb.FollowRequest))
			took := time.Since(began)
			switch {
			case silent && (!errors.Is(err, rpc.ErrUnreachable) || took != 3*time.Second):
				t.Errorf("a silent coordinator: %v after %v", err, took)
			case !silent && (err != nil || !bytes.Equal(out.GetEntries(), entries) || took < 16*time.Second):
				t.Errorf("a slow line: %d octets, %v, after %v", len(out.GetEntries()), err, took)
			}
		})
	}
}
