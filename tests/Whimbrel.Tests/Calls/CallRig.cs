using System.Buffers.Binary;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests.Calls;

// A client of calls in virtual time; the test writes the bytes of the other end.
internal sealed class CallRig : IDisposable
{
    private static readonly ReconnectPolicy s_soon =
        new() { Jitter = false, InitialDelay = TimeSpan.FromSeconds(1), StopWhen = static _ => false };

    internal CallRig(CallOptions? calls = null, CallFormat? format = null, bool reconnects = false,
        int sendLimitBytes = 1024 * 1024)
    {
        Client = new PushedClient(
            new ClientOptions
            {
                Engine = Network.Engine,
                EndPoint = Network.NewEndPoint(),
                Reconnect = reconnects ? s_soon : null,
                Limits = new() { SendBytes = sendLimitBytes, SlowConsumer = SlowConsumer.Wait },
            },
            format,
            calls);
    }

    internal TestNetwork Network { get; } = new();

    internal PushedClient Client { get; }

    // Each connection is another peer.
    internal TestPeer Peer { get; private set; } = null!;

    internal CallRig Connected()
    {
        Peer = Network.Accept(Client);
        return this;
    }

    internal Task<string> Call(string request, TimeSpan? timeout = null, CancellationToken token = default)
    {
        Task<string> call = Begin(request, timeout, token);
        Network.Run();
        return call;
    }

    internal async Task<string> Begin(string request, TimeSpan? timeout = null, CancellationToken token = default)
    {
        using CallAnswer answer = await Client.CallAsync(Encoding.UTF8.GetBytes(request), timeout, token);
        return Encoding.UTF8.GetString(answer.Span);
    }

    // Frames that have arrived at the peer.
    internal List<(ulong Id, string Body)> Requests()
    {
        List<(ulong, string)> requests = [];
        ReadOnlySpan<byte> bytes = Peer.Receive();
        while (!bytes.IsEmpty)
        {
            int length = BinaryPrimitives.ReadInt32BigEndian(bytes);
            requests.Add((BinaryPrimitives.ReadUInt64BigEndian(bytes[4..]),
                Encoding.UTF8.GetString(bytes.Slice(12, length - 8))));
            bytes = bytes[(4 + length)..];
        }

        return requests;
    }

    internal void Answer(ulong id, string body) => Peer.Send(FrameOf(id, body));

    internal static byte[] FrameOf(ulong id, string body)
    {
        byte[] text = Encoding.UTF8.GetBytes(body);
        byte[] frame = new byte[12 + text.Length];
        BinaryPrimitives.WriteInt32BigEndian(frame, 8 + text.Length);
        BinaryPrimitives.WriteUInt64BigEndian(frame.AsSpan(4), id);
        text.CopyTo(frame, 12);
        return frame;
    }

    internal static string ResultOf(Task<string> call)
    {
        Assert.True(call.IsCompleted, "the call has not ended");
        return call.GetAwaiter().GetResult();
    }

    internal static CallException FailureOf(Task<string> call)
    {
        Assert.True(call.IsFaulted, $"the call is {call.Status}");
        return Assert.IsType<CallException>(call.Exception!.InnerException);
    }

    public void Dispose() => Network.Dispose();

    internal sealed class PushedClient(ClientOptions options, CallFormat? format, CallOptions? calls)
        : CallClient(options, format, calls)
    {
        internal List<string> Pushes { get; } = [];

        internal Action<string>? WhenPushed { get; set; }

        protected override void OnPush(ReadOnlySpan<byte> body)
        {
            Pushes.Add(Encoding.UTF8.GetString(body));
            WhenPushed?.Invoke(Pushes[^1]);
        }
    }
}
