package inbound

import (
	"context"
	"errors"
	"net/http"
	"path"
	"runtime/debug"

	"connectrpc.com/connect"
)

// Recovering returns the option by which a call that panics answers its caller with an error. It tells told the name
// of the call, the value and the stack; nil: nobody.
func Recovering(told func(call string, value any, stack []byte)) connect.HandlerOption {
	return connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, value any) error {
		if told != nil {
			told(path.Base(spec.Procedure), value, debug.Stack())
		}
		return connect.NewError(connect.CodeInternal, errors.New("the call has failed by a mistake of the program; "+
			"the agent's events have a line \"call-panicked\""))
	})
}
