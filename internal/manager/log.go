package manager

import (
	"io"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Logger returns the logger that the options ask for.
func (o *Options) Logger(out io.Writer) logr.Logger {
	level := map[string]zapcore.Level{
		"error": zapcore.ErrorLevel,
		"info":  zapcore.InfoLevel,
		"debug": zapcore.DebugLevel,
	}[o.LogLevel]
	encode := zap.JSONEncoder(isoTime)
	if o.LogFormat == "text" {
		encode = zap.ConsoleEncoder(isoTime)
	}
	return zap.New(zap.WriteTo(out), zap.Level(level), encode)
}

func isoTime(config *zapcore.EncoderConfig) { config.EncodeTime = zapcore.RFC3339NanoTimeEncoder }
