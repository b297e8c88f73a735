using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Parsing;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

/// <summary>A server on a memory network, and helpers that parse its responses.</summary>
internal sealed class Web : IDisposable
{
    internal const string Host = "Host: a\r\n";

    internal Web(HttpOptions? options = null, Scheduling scheduling = Scheduling.Inline)
    {
        Network = new TestNetwork();
        Server = new HttpServer(new ServerOptions
        {
            Engine = Network.Engine,
            EndPoint = Network.NewEndPoint(),
            Scheduling = scheduling,
            OnDiagnosticEvent = Notices.Add
        }, options);
    }

    internal List<DiagnosticEvent> Notices { get; } = [];

    internal TestNetwork Network { get; }

    internal HttpServer Server { get; }

    internal HttpCounters Counters => Server.Http.ReadCounters();

    internal TestPeer Connect() => Network.Connect(Server);

    public void Dispose() => Network.Dispose();

    /// <summary>A request without a body.</summary>
    internal static string Get(string path, string fields = "", string verb = "GET") =>
        $"{verb} {path} HTTP/1.1\r\n{Host}{fields}\r\n";

    /// <summary>A request with one.</summary>
    internal static string Post(string path, string body, string fields = "") =>
        $"POST {path} HTTP/1.1\r\n{Host}{fields}Content-Length: {body.Length}\r\n\r\n{body}";

    /// <summary>The responses received so far, as <c>status body</c>. Fails on anything else.</summary>
    internal static string[] Answers(TestPeer peer) => [.. Read(peer).Select(a => $"{a.Status} {a.Body}")];

    internal static Answer One(TestPeer peer) => Assert.Single(Read(peer));

    internal static List<Answer> Read(TestPeer peer) => Read(peer.Receive(), peer.IsSessionFinished);

    /// <summary>All responses in some bytes. Throws for anything else.</summary>
    internal static List<Answer> Read(ReadOnlySpan<byte> bytes, bool isFinished, Func<int, bool>? isHead = null)
    {
        List<Answer> answers = [];
        while (!bytes.IsEmpty)
        {
            HttpReader head = new();
            head.BeginResponse(HttpReaderLimits.Default, isHead?.Invoke(answers.Count) ?? false);
            // The message is built only on failure: building it for each of thousands of responses takes seconds.
            if (head.Read(bytes) != HttpReading.Done) Assert.Fail($"{head.Rule}: {Encoding.Latin1.GetString(bytes)}");
            Dictionary<string, string> fields = new(StringComparer.OrdinalIgnoreCase);
            for (int i = 0; i < head.Count; i++)
                fields[Encoding.Latin1.GetString(bytes.Slice(head[i].NameStart, head[i].NameLength))] =
                    Encoding.Latin1.GetString(bytes.Slice(head[i].ValueStart, head[i].ValueLength));
            int status = head.Status;
            HttpBodyReader reader = new(head, HttpReaderLimits.Default with
            {
                BodyBytes = long.MaxValue,
                HeadBytes = 64 * 1024
            });
            bytes = bytes[head.HeadLength..];
            StringBuilder body = new();
            HttpReading reading;
            string trailers = "";
            while ((reading = reader.Read(bytes, out int taken)) is HttpReading.Data
                || (reading == HttpReading.Done && taken > 0))
            {
                if (reading == HttpReading.Done)
                    trailers = Encoding.Latin1.GetString(bytes.Slice(reader.Start, reader.Length));
                else body.Append(Encoding.Latin1.GetString(bytes.Slice(reader.Start, reader.Length)));
                bytes = bytes[taken..];
            }

            Assert.NotEqual(HttpReading.Broken, reading);
            bool isWhole = reading == HttpReading.Done || (isFinished && reader.Finish() == HttpReading.Done);
            answers.Add(new Answer(status, fields, body.ToString(), trailers, isWhole));
            if (!isWhole || status == 101) break;
        }

        return answers;
    }
}

internal sealed record Answer(int Status, Dictionary<string, string> Fields, string Body, string Trailers, bool IsWhole)
{
    internal string this[string name] => Fields.GetValueOrDefault(name, "");
}
