package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
)

// wholePutter is a provider that sends an object in one request out of memory
// by itself: what a library for uploads of any size does beside that costs as
// much as a small object.
type wholePutter interface {
	// putWhole sends data, whose hash is sum in hex, on the upload's condition,
	// and returns the new version, empty when the answer did not tell it. When
	// err is nil nobody reads data any more. errAnotherWay: nothing was sent.
	putWhole(ctx context.Context, w *upload, data []byte, sum string) (Version, error)
}

// inMemory reads a whole body and compares it with what was announced. free
// gives the memory back once nobody reads data any more.
func (b Body) inMemory() (data []byte, free func(), err error) {
	r, err := b.reader()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	data, free = borrowBytes(b.Size + 1) // a source that is longer shows
	n, _, err := fill(data, r)
	if err == nil {
		h := sha256.New()
		h.Write(data[:n])
		err = b.verify(int64(n), h)
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return data[:n], free, nil
}

// littleBuffers are for objects much smaller than a part.
var littleBuffers = sync.Pool{New: func() any { return new([littleBuffer]byte) }}

const littleBuffer = wholeObject + 1

// borrowBytes is memory of n bytes that is used again, or new where that
// would hold on to more than a part.
func borrowBytes(n int64) (data []byte, free func()) {
	switch {
	case n <= littleBuffer:
		b := littleBuffers.Get().(*[littleBuffer]byte)
		return b[:n], func() { littleBuffers.Put(b) }
	case n <= partSize:
		data := buffers.Get().(*[partSize]byte)[:n]
		return data, func() { giveBack(data) }
	}
	return make([]byte, n), func() {}
}

// putWhole sends one PutObject. The hash that goes along as metadata is that
// of the body, too, so it is not computed again to sign the request, and over
// https it makes the server compare what arrives, for nothing.
func (p *s3Provider) putWhole(ctx context.Context, w *upload, data []byte, sum string) (Version, error) {
	stored, err := storedKey(w.key, s3Special)
	if err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{
		Bucket: aws.String(p.bucket), Key: aws.String(stored),
		Body: bytes.NewReader(data), ContentType: aws.String(contentType), Metadata: map[string]string{metaSHA: sum},
		ServerSideEncryption: p.encryption,
	}
	if p.kmsKey != "" {
		in.SSEKMSKeyId = aws.String(p.kmsKey)
	}
	if w.have == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(string(w.have))
	}
	out, err := p.client.PutObject(ctx, in, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, payloadHash(sum))
	})
	if err != nil {
		return "", err
	}
	return Version(aws.ToString(out.ETag)), nil
}

// payloadHash tells the signer the hash of the body. A checksum that goes as a
// trailer takes its place, as it would take that of a computed one.
func payloadHash(sum string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("KnownPayloadHash",
			func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				return next.HandleFinalize(v4.SetPayloadHash(ctx, sum), in)
			}), middleware.Before)
	}
}
