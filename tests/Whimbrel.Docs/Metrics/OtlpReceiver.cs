using System.Collections.Concurrent;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Docs.Metrics;

// Receives OTLP by HTTP and protobuf, as a collector does, and keeps the names.
internal sealed class OtlpReceiver : IAsyncDisposable
{
    private readonly HttpServer _server = new("http://127.0.0.1:0");

    /// Units by name of the instrument.
    public ConcurrentDictionary<string, string> Units { get; } = new();

    /// Names of sources with spans.
    public ConcurrentDictionary<string, int> Sources { get; } = new();

    /// Texts of the programs' resources.
    public ConcurrentDictionary<string, string> Resource { get; } = new();

    public string Address => $"http://{_server.EndPoint}";

    public static async Task<OtlpReceiver> StartAsync()
    {
        OtlpReceiver receiver = new();
        receiver._server.Post("/v1/metrics", (request, response) =>
        {
            receiver.TakeMetrics(request.BodyBytes.ToArray());
            response.Empty(200);
        });
        receiver._server.Post("/v1/traces", (request, response) =>
        {
            receiver.TakeSpans(request.BodyBytes.ToArray());
            response.Empty(200);
        });
        await receiver._server.StartAsync();
        return receiver;
    }

    public async Task HasAsync(string metric)
    {
        using CancellationTokenSource end = new(RunningProgram.Patience);
        while (!Units.ContainsKey(metric)) await Task.Delay(50, end.Token); // tidy: waits because exports have no event
    }

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    // ExportMetricsServiceRequest: 1 resource_metrics (1 resource, 2 scope_metrics (2 metrics (1 name, 3 unit))).
    private void TakeMetrics(byte[] body)
    {
        foreach (var resource in Fields(body, 1))
        {
            TakeResource(resource);
            foreach (var metric in Fields(resource, 2).SelectMany(static scope => Fields(scope, 2)))
                Units[TextOf(metric, 1)] = TextOf(metric, 3);
        }
    }

    // ExportTraceServiceRequest: 1 resource_spans (2 scope_spans (1 scope (1 name), 2 spans)).
    private void TakeSpans(byte[] body)
    {
        foreach (var scope in Fields(body, 1).SelectMany(static resource => Fields(resource, 2)))
            Sources.AddOrUpdate(TextOf(Fields(scope, 1).Single(), 1), Fields(scope, 2).Count(),
                (_, before) => before + Fields(scope, 2).Count());
    }

    // Resource: 1 attributes (1 key, 2 value (1 string)).
    private void TakeResource(ReadOnlyMemory<byte> resource)
    {
        foreach (var attribute in Fields(resource, 1).SelectMany(static r => Fields(r, 1)))
            Resource[TextOf(attribute, 1)] = TextOf(Fields(attribute, 2).Single(), 1);
    }

    private static string TextOf(ReadOnlyMemory<byte> message, int number) =>
        Encoding.UTF8.GetString(Fields(message, number).SingleOrDefault().Span);

    /// The fields of a message that have a length and this number.
    private static IEnumerable<ReadOnlyMemory<byte>> Fields(ReadOnlyMemory<byte> message, int number)
    {
        for (var at = 0; at < message.Length;)
        {
            var tag = Varint(message, ref at);
            var length = (tag & 7) switch { 1 => 8, 5 => 4, 2 => (int)Varint(message, ref at), _ => 0 };
            if ((tag & 7) == 0) Varint(message, ref at);
            if ((tag & 7) == 2 && tag >> 3 == (ulong)number) yield return message.Slice(at, length);
            at += length;
        }
    }

    private static ulong Varint(ReadOnlyMemory<byte> message, ref int at)
    {
        var value = 0UL;
        for (var shift = 0; ; shift += 7)
        {
            var one = message.Span[at++];
            value |= (ulong)(one & 0x7f) << shift;
            if (one < 0x80) return value;
        }
    }
}
