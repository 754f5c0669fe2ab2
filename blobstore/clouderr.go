package blobstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// reply is what a server said no with, whichever library brought it.
type reply struct {
	status  int    // of HTTP; 0: there was none
	code    string // the provider's word for it, such as NoSuchKey; may be empty
	message string // its sentence; may be empty
}

// Conditions of a request that failed, before they get a meaning: to a create
// it is ErrExists or success, to a swap ErrConflict, to a read a change.
// To a request without a condition it means nothing: a server that says so is
// out of order.
var (
	errCondition error = unmet("condition of the request not met")
	errRange     error = unmet("range past the end")
)

// unmet is ErrTemporary to whoever has no other meaning for it.
type unmet string

func (u unmet) Error() string        { return string(u) }
func (u unmet) Is(target error) bool { return target == ErrTemporary }

// String is one line.
func (r reply) String() string {
	var parts []string
	if r.status != 0 {
		parts = append(parts, fmt.Sprint(r.status))
	}
	if r.code != "" {
		parts = append(parts, r.code)
	} else if text := http.StatusText(r.status); text != "" {
		parts = append(parts, text)
	}
	s := strings.Join(parts, " ")
	if m := oneLine(r.message); m != "" && m != r.code {
		s += ": " + m
	}
	return s
}

// oneLine makes a server's sentence fit for a message: no line breaks, no
// controls, not too long.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return strings.TrimSuffix(s, ".")
}

// codes are the words that say more than the status they come with.
var codes = map[string]error{
	"NoSuchBucket":      ErrNoBucket,
	"ContainerNotFound": ErrNoBucket,

	"ConditionalRequestConflict": errCondition, // S3, 409: another write of this key is under way
	"BlobAlreadyExists":          errCondition, // Azure, 409
	"OperationAborted":           ErrTemporary, // S3, 409
	"ExistingObjectIsDirectory":  ErrExists,    // S3 over files, 409
	"ObjectParentIsFile":         ErrExists,
	"RequestTimeout":             ErrTemporary, // S3, 400
	"KeyTooLongError":            ErrBadKey,
	"InvalidObjectName":          ErrBadKey,
	"InvalidResourceName":        ErrBadKey,

	"ExpiredToken":                       ErrPermission, // S3, 400
	"InvalidToken":                       ErrPermission,
	"InvalidAccessKeyId":                 ErrPermission,
	"SignatureDoesNotMatch":              ErrPermission,
	"AuthorizationHeaderMalformed":       ErrBadURL, // S3, 400: another region than the bucket's
	"PermanentRedirect":                  ErrBadURL, // S3, 301: the same
	"IllegalLocationConstraintException": ErrBadURL,
	"InvalidBucketName":                  ErrBadURL, // S3, 400

	"QuotaExceeded":       ErrFull,
	"XMinioStorageFull":   ErrFull,
	"InsufficientStorage": ErrFull,
}

// kind is what a reply means to the callers of a Store.
func (r reply) kind() error {
	if k, ok := codes[r.code]; ok {
		return k
	}
	switch r.status {
	case http.StatusNotFound:
		return ErrNotExist
	case http.StatusForbidden, http.StatusUnauthorized:
		return ErrPermission
	case http.StatusPreconditionFailed, http.StatusNotModified:
		return errCondition
	case http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return ErrBadURL
	case http.StatusInsufficientStorage:
		return ErrFull
	case http.StatusConflict: // with a word for it, it is something that lasts
		if r.code == "" || r.code == "Conflict" {
			return ErrTemporary
		}
		return nil
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return ErrTemporary
	}
	if r.status >= 500 {
		return ErrTemporary
	}
	return nil
}

// hint says what to do about a reply that people meet and misread.
func (r reply) hint() string {
	switch r.code {
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "; the bucket is in another region: add ?region=NAME or set AWS_REGION"
	case "RequestTimeTooSkewed", "RequestExpired":
		return "; set this machine's clock"
	}
	return ""
}

// fault is what a store over the network said or failed to say, in one line
// for people, and what they can do about it.
type fault struct {
	kind     error // the sentinel that errors.Is finds; may be nil
	what     string
	next     string // what to do; empty: what is usual for the kind
	hopeless bool   // no repetition mends it within the time that anybody waits
	shut     bool   // nobody listens there: a server that is started again takes seconds
}

func (f *fault) Error() string { return f.what }
func (f *fault) Unwrap() error { return f.kind }

// Next is one line what to do; package outcome asks for it.
func (f *fault) Next() string {
	if f.next != "" {
		return f.next
	}
	return nextSteps[f.kind]
}

var nextSteps = map[error]string{
	ErrNoBucket:   "make the bucket with your provider's tools, or check its name and ?endpoint=",
	ErrPermission: "check the keys in the environment, and what they may do with this bucket",
	ErrTemporary:  "check the network and the store, then try again; tarn doctor URL asks it step by step",
	ErrBadURL:     "the parameters of each kind of URL are in docs/semantics.md",
}

// lead starts the line of each kind.
var lead = map[error]string{
	ErrNotExist:   "the object does not exist",
	ErrNoBucket:   "the bucket does not exist",
	ErrPermission: "permission denied",
	ErrTemporary:  "the store is out of order or overloaded",
	ErrFull:       "the store is full",
	ErrBadKey:     "the store cannot hold this name",
	ErrBadURL:     "the URL does not fit the bucket",
	ErrExists:     "an object is in the way of a folder, or the other way round",
	errCondition:  "condition not met",
	errRange:      "range past the end",
}

// err is the reply of the store at that URL as an error.
func (r reply) err(at string) error {
	kind := r.kind()
	words, ok := lead[kind]
	if !ok {
		words = "the store refused the request"
	}
	f := &fault{kind: kind, what: fmt.Sprintf("%s: %s answered %s%s", words, at, r, r.hint())}
	if kind == nil {
		f.next = "look for the store's own words in its manual; tarn doctor URL asks it step by step"
	}
	return f
}

// cloudError translates err, of a call of the store at that URL. find looks for
// the provider's reply in it. What is returned shows nothing of the request:
// libraries put signatures into the addresses they report.
func cloudError(ctx context.Context, at string, err error, find func(error) (reply, bool)) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // whatever broke off because of that
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	if r, ok := find(err); ok && r.status >= 300 {
		return r.err(at)
	}
	if known := ownError(err); known != nil {
		return known
	}
	if why := networkTrouble(err); why != "" {
		return &fault{kind: ErrTemporary, what: "cannot reach " + at + ": " + why, hopeless: hopeless(err), shut: errors.Is(err, syscall.ECONNREFUSED)}
	}
	return &fault{what: at + ": the store's client says: " + oneLine(withoutURL(err))}
}

// ownError finds an error of this package that went through a library.
func ownError(err error) error {
	var broken *sourceError
	if errors.As(err, &broken) {
		return broken.err
	}
	for _, k := range kinds {
		if errors.Is(err, k) {
			return fmt.Errorf("%w (%s)", k, oneLine(withoutURL(err)))
		}
	}
	return nil
}

// withoutURL is the text of an error without the address that net/http puts
// before it: its query may be signed.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// networkTrouble says what is wrong on the way to a store, or nothing.
func networkTrouble(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var netErr net.Error
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host " + dns.Name
	case errors.As(err, &dns):
		return "the name " + dns.Name + " cannot be looked up"
	case errors.As(err, &cert):
		return "its certificate is not trusted: " + oneLine(cert.Err.Error())
	case errors.As(err, &header):
		return "it does not speak TLS: is it http:// that was meant?"
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil && errors.As(err, &errno):
		return op.Addr.String() + ": " + errno.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it broke off in the middle of its answer"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "it does not answer in time"
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled), errors.As(err, &op):
		return "the connection was lost"
	}
	return ""
}

// hopeless tells the trouble that no repetition mends.
func hopeless(err error) bool {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &cert) || errors.As(err, &unknown)
}

// sourceError is the error of a body's own reader: it is the caller's, not the
// store's, and is handed back as it was.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }
