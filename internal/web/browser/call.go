package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// behaviour is the program that runs in the page's document, in a world that the page's own scripts cannot reach.
//
//go:embed behaviour.js
var behaviour string

// decode reads the parameters of an event. What it cannot read is zero: a newer browser may say it in another form.
func decode[E any](params []byte) (e E) {
	_ = json.Unmarshal(params, &e)
	return e
}

// errScript is the error of an expression that the browser could not evaluate.
var errScript = errors.New("script")

// evaluate returns the value of an expression in behaviour's world. A page that loads itself again has a new document,
// into which behaviour goes again.
func evaluate[T any](ctx context.Context, v *view, expression string) (value T, err error) {
	for range maxShown {
		if err = v.prepare(ctx); err == nil {
			value, err = expressed[T](ctx, v, expression)
		}
		if err == nil || !strings.Contains(err.Error(), "context") || ctx.Err() != nil {
			return value, err
		}
		v.world = 0
	}
	return value, err
}

// prepare puts behaviour into a world of its own in the document, if it is not there.
func (v *view) prepare(ctx context.Context) error {
	if v.world != 0 {
		return nil
	}
	ctx, cancel := v.soon(ctx)
	defer cancel()
	world, err := cdp.Call(ctx, v.tab, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: v.frame,
		WorldName: "orbweaver"})
	if err != nil {
		return err
	}
	v.world = world.ExecutionContextID
	_, err = expressed[bool](ctx, v, behaviour+"; true")
	return err
}

// expressed returns the value of an expression in the world that is there.
func expressed[T any](ctx context.Context, v *view, expression string) (value T, err error) {
	ctx, cancel := v.soon(ctx)
	defer cancel()
	yes := true
	answer, err := cdp.Call(ctx, v.tab, runtime.Evaluate, runtime.EvaluateParams{Expression: expression,
		ContextID: v.world, ReturnByValue: &yes, AwaitPromise: &yes})
	if err != nil {
		return value, err
	}
	if e := answer.ExceptionDetails; e != nil {
		return value, fmt.Errorf("%w: %.200s", errScript, e.Text)
	}
	if answer.Result == nil {
		return value, nil
	}
	return value, json.Unmarshal(answer.Result.Value, &value)
}
