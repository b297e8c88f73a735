using System.Diagnostics;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel get</c>: one request. The body goes to stdout or a file; errors and progress go to
/// stderr.</summary>
internal sealed class GetCommand
{
    private const int BlockBytes = 64 * 1024;
    private const int KeptBytes = 1024 * 1024; // larger bodies send Expect first, and cannot be redirected

    private readonly GetSettings _settings;
    private readonly ProgressLine _progress = ProgressLine.OnTerminal();
    private readonly long _start = Stopwatch.GetTimestamp();
    private HttpClientResponse? _response;
    private long _redirects;
    private long _sentBytes;
    private long _bytes;
    private bool _isAnswering; // the progress line is for the answer

    private GetCommand(GetSettings settings) => _settings = settings;

    internal static async Task<int> RunAsync(GetSettings settings)
    {
        await using NoticePrinter notices = new();
        Task stop = StopSignal.WaitAsync();
        using CancellationTokenSource ending = new();
        _ = CancelOnStopAsync();
        GetCommand command = new(settings);
        string failure;
        Exception? cause = null;
        try
        {
            await using Engine engine = new(new EngineOptions
            {
                Kind = settings.Engine,
                Loops = 1,
                BlockedLoopMs = NoticePrinter.BlockedLoopMs,
                OnDiagnosticEvent = notices.Add
            });
            failure = await command.AskAsync(engine, ending.Token) ?? "";
        }
        catch (OperationCanceledException) when (ending.IsCancellationRequested)
        {
            failure = "cancelled";
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException
            or IOException or UnauthorizedAccessException or CryptographicException)
        {
            failure = $"{settings.Method} {settings.Url}: {e.Message}{RemedyFor(e, settings.Url)}";
            cause = e;
        }

        command._progress.Clear();
        if (settings.AsJson) Console.Out.WriteLine(command.Json(failure, cause));
        if (failure.Length > 0) await Console.Error.WriteLineAsync($"whimbrel: {failure}");
        command._response?.Dispose();
        return failure.Length > 0 ? ExitCode.Failed : ExitCode.Done;

        async Task CancelOnStopAsync()
        {
            await stop;
            await ending.CancelAsync();
        }
    }

    private static string RemedyFor(Exception failure, Uri url)
    {
        string place =
            url.Authority.Contains(':', StringComparison.Ordinal) ? url.Authority : $"{url.Authority}:{url.Port}";
        return failure switch
        {
            // The remedy for a rejected certificate is a trust option.
            HttpClientException
            {
                InnerException.InnerException: TlsException { Failure: TlsFailure.CertificateRejected }
            } => " Name trusted authorities by --ca FILE, or a certificate by --pin HASH.",
            HttpClientException { Failure: HttpClientFailure.Tls } => $" Does it speak TLS? Without: http://{place}.",
            HttpClientException { Failure: HttpClientFailure.Protocol } =>
                $" Is it an HTTP server? To see what it sends: whimbrel connect {place}.",
            HttpClientException { Failure: HttpClientFailure.ConnectionLost } when url.Scheme == Uri.UriSchemeHttp =>
                $" Does it speak HTTP? With TLS: https://{place}.",
            _ => "",
        };
    }

    /// <summary>Returns null, or the reason of the failure.</summary>
    private async Task<string?> AskAsync(Engine engine, CancellationToken ending)
    {
        await using HttpPool pool = new(new HttpClientOptions
        {
            Engine = engine,
            Tls = _settings.Tls?.ToClientOptions(),
            EndPoint = _settings.Place,
            RedirectLimit = _settings.Redirects,
            Decompress = _settings.Compressed,
            RequestTimeout = _settings.Timeout ?? Timeout.InfiniteTimeSpan,
            BodyLimitBytes = long.MaxValue,
        });
        await using Stream? body = _settings.BodyFile is { } file ? OpenBody(file) : null;
        HttpClientResponse response = _response = await pool.SendAsync(await MakeRequestAsync(body, ending), ending);
        _redirects = pool.ReadCounters().Redirects;
        _isAnswering = true;
        // Only filtered text is written to the terminal here: see PrintHead.
        if (_settings.Method == "HEAD" && !_settings.AsJson) PrintHead(response.Head);
        await SaveAsync(response, ending);
        return response.Status switch
        {
            >= 400 => $"{response.Request}: {StatusOf(response.Head)}",
            301 or 302 or 303 or 307 or 308 when _settings.Redirects > 0 =>
                $"{response.Request}: {StatusOf(response.Head)}, to "
                + $"{Printable(Encoding.Latin1.GetBytes(response.Head["Location"] ?? "nowhere"))}, which is "
                + $"not followed.",
            _ => null,
        };
    }

    // ------------------------------------------------------------------ the request

    private static Stream OpenBody(string file) => file == "-"
        ? Console.OpenStandardInput()
        : new FileStream(file, FileMode.Open, FileAccess.Read, FileShare.Read, 1, useAsync: true);

    private async Task<HttpClientRequest> MakeRequestAsync(Stream? body, CancellationToken ending)
    {
        HttpClientRequest request = new(_settings.Method, _settings.Url);
        if (body is not null)
        {
            const string Type = "application/octet-stream";
            long length = body.CanSeek ? body.Length : -1;
            if (length is >= 0 and <= KeptBytes)
            {
                byte[] bytes = new byte[length];
                await body.ReadExactlyAsync(bytes, ending);
                request.SetBody(bytes, Type);
                _sentBytes = length;
            }
            else
            {
                request.ExpectContinue = true;
                request.SetBody((to, stop) => CopyBodyAsync(body, to, length, stop), Type, length);
            }
        }

        // After the body, so that a given content type replaces the default.
        foreach ((string name, string value) in _settings.Fields) request.Add(name, value);
        return request;
    }

    private async Task CopyBodyAsync(Stream from, Stream to, long length, CancellationToken stop)
    {
        byte[] block = new byte[BlockBytes];
        for (int count; (count = await from.ReadAsync(block, stop)) > 0;)
        {
            await to.WriteAsync(block.AsMemory(0, count), stop);
            _sentBytes += count;
            if (!_isAnswering) _progress.Show("out", _sentBytes, length);
        }
    }

    // ------------------------------------------------------------------ the answer

    private async Task SaveAsync(HttpClientResponse response, CancellationToken ending)
    {
        bool isWanted = response.Status < 400;
        await using Stream? output = _settings.OutputFile is { } file
            ? isWanted
                ? new FileStream(file, FileMode.Create, FileAccess.Write, FileShare.Read, 1, useAsync: true)
                : null
            : _settings.AsJson ? null : Console.OpenStandardOutput();
        // A status line would be mixed with a body on the terminal.
        bool shows = output is null or FileStream || Console.IsOutputRedirected;
        byte[] block = new byte[BlockBytes];
        long total = response.BodyLength;
        for (int count; (count = await response.Body.ReadAsync(block, ending)) > 0;)
        {
            if (output is not null) await output.WriteAsync(block.AsMemory(0, count), ending);
            _bytes += count;
            if (shows) _progress.Show("in", _bytes, total);
        }
    }

    private static void PrintHead(HttpResponseHead head)
    {
        Console.Out.WriteLine($"HTTP/1.{head.MinorVersion} {StatusOf(head)}");
        for (int i = 0; i < head.FieldCount; i++)
            Console.Out.WriteLine($"{Printable(head.NameAt(i))}: {Printable(head.ValueAt(i))}");
    }

    private static string StatusOf(HttpResponseHead head) => $"{head.Status} {Printable(head.Reason)}".TrimEnd();

    /// <summary>Replaces control characters, because received bytes could control the terminal.</summary>
    private static string Printable(ReadOnlySpan<byte> bytes) => ChatText.Clean(bytes);

    /// <summary>Returns the result as one line.</summary>
    private string Json(string failure, Exception? cause)
    {
        using MemoryStream bytes = new();
        using (Utf8JsonWriter json = new(bytes,
            new JsonWriterOptions { Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping }))
        {
            json.WriteStartObject();
            json.WriteString("url", (_response?.Request.Uri ?? _settings.Url).ToString());
            json.WriteString("method", _response?.Request.Method ?? _settings.Method);
            if (_response is { } response)
            {
                json.WriteNumber("status", response.Status);
                json.WriteNumber("redirects", _redirects);
                WriteMs(json, "connect_ms", response.Times.Connect);
                WriteMs(json, "tls_ms", response.Times.Handshake);
                WriteMs(json, "first_byte_ms", response.Times.FirstByte);
            }

            WriteMs(json, "total_ms", Stopwatch.GetElapsedTime(_start));
            json.WriteNumber("bytes", _bytes);
            json.WriteNumber("sent_bytes", _sentBytes);
            if (failure.Length > 0)
            {
                if (cause is HttpClientException { Failure: var kind }) json.WriteString("failure", kind.ToString());
                json.WriteString("message", failure);
            }

            json.WriteEndObject();
        }

        return Encoding.UTF8.GetString(bytes.GetBuffer(), 0, (int)bytes.Length);
    }

    private static void WriteMs(Utf8JsonWriter json, string name, TimeSpan time) =>
        json.WriteNumber(name, Math.Round(time.TotalMilliseconds, 3));
}
