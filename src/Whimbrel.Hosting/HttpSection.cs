using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>
/// Reads the limits of HTTP from the section <c>Http</c> of a server, over those in code.
/// <see cref="HttpOptions.FindMistakes"/> checks the ranges.
/// </summary>
internal static class HttpSection
{
    internal static HttpOptions Read(SectionReader section, HttpOptions code)
    {
        HttpOptions options = new()
        {
            AllowTrace = section.Flag(nameof(code.AllowTrace), code.AllowTrace),
            BodyLimitBytes = section.Long(nameof(code.BodyLimitBytes), code.BodyLimitBytes),
            BodyTimeout = section.Time(nameof(code.BodyTimeout), code.BodyTimeout),
            BufferedBodyLimitBytes = section.Int(nameof(code.BufferedBodyLimitBytes), code.BufferedBodyLimitBytes),
            ConnectionLifetime = section.Time(nameof(code.ConnectionLifetime), code.ConnectionLifetime),
            FieldLimit = section.Int(nameof(code.FieldLimit), code.FieldLimit),
            FormFieldLimit = section.Int(nameof(code.FormFieldLimit), code.FormFieldLimit),
            HeadLimitBytes = section.Int(nameof(code.HeadLimitBytes), code.HeadLimitBytes),
            HeadTimeout = section.Time(nameof(code.HeadTimeout), code.HeadTimeout),
            Hosts = section.Texts(nameof(code.Hosts)) is { Count: > 0 } hosts ? hosts : code.Hosts,
            KeepAliveTimeout = section.Time(nameof(code.KeepAliveTimeout), code.KeepAliveTimeout),
            MinBytesPerSecond = section.Int(nameof(code.MinBytesPerSecond), code.MinBytesPerSecond),
            PipelineLimitBytes = section.Int(nameof(code.PipelineLimitBytes), code.PipelineLimitBytes),
            RateGrace = section.Time(nameof(code.RateGrace), code.RateGrace),
            RequestLimit = section.Int(nameof(code.RequestLimit), code.RequestLimit),
            RequestLineLimitBytes = section.Int(nameof(code.RequestLineLimitBytes), code.RequestLineLimitBytes),
            SendDate = section.Flag(nameof(code.SendDate), code.SendDate),
            SendTimeout = section.Time(nameof(code.SendTimeout), code.SendTimeout),
            SkipLimitBytes = section.Int(nameof(code.SkipLimitBytes), code.SkipLimitBytes),
            StrictTransport = section.Text(nameof(code.StrictTransport)) is null
                ? code.StrictTransport
                : section.Time(nameof(code.StrictTransport), TimeSpan.Zero),
            StrictTransportForSubdomains = section.Flag(nameof(code.StrictTransportForSubdomains),
                code.StrictTransportForSubdomains),

            // Options that text cannot express.
            Compression = code.Compression,
            Cors = code.Cors,
            Log = code.Log,
        };
        section.End();
        foreach (string found in options.FindMistakes()) section.AddFound(found.TrimEnd('.'));
        return options;
    }
}
