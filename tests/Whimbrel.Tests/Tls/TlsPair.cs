using System.Runtime.InteropServices;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>A client and a server connected by two byte queues, in one thread.</summary>
internal sealed class TlsPair : IDisposable
{
    private static readonly byte[] s_hello = "hello, this is a client"u8.ToArray();

    public TlsPair(TlsProfile server, TlsProfile client, string? host = "chat.test", int split = int.MaxValue,
        int outputBytes = 32 * 1024)
    {
        Server = new TlsEnd(server, null, outputBytes);
        Client = new TlsEnd(client, host, outputBytes);
        Split = split;
    }

    public TlsEnd Server { get; }

    public TlsEnd Client { get; }

    /// <summary>Bytes per piece.</summary>
    public int Split { get; set; }

    /// <summary>Number of bytes sent by the client, and by the server.</summary>
    public (long FromClient, long FromServer) Moved { get; private set; }

    /// <summary>Starts the client and moves bytes until none are left.</summary>
    public TlsPair Shake()
    {
        Client.Start();
        Move();
        return this;
    }

    /// <summary>Sends a few bytes in each direction.</summary>
    public void Talk()
    {
        Assert.True(Client.IsReady, $"client: {Client.Fault}; server: {Server.Fault}");
        Assert.True(Server.IsReady, $"server: {Server.Fault}; client: {Client.Fault}");
        int before = Server.Plain.Count;
        Client.Send(s_hello);
        Move();
        Assert.Equal(s_hello, Server.Plain.Skip(before));
        before = Client.Plain.Count;
        Server.Send(s_hello);
        Move();
        Assert.Equal(s_hello, Client.Plain.Skip(before));
    }

    public void Move()
    {
        while (MoveOne(Client, Server) | MoveOne(Server, Client))
        {
        }
    }

    private bool MoveOne(TlsEnd from, TlsEnd to)
    {
        if (from.Output.Count == 0) return false;
        int count = Math.Min(Split, from.Output.Count);
        byte[] piece = CollectionsMarshal.AsSpan(from.Output)[..count].ToArray();
        from.Output.RemoveRange(0, count);
        Moved = ReferenceEquals(from, Client)
            ? (Moved.FromClient + count, Moved.FromServer)
            : (Moved.FromClient, Moved.FromServer + count);
        to.Feed(piece);
        return true;
    }

    public void Dispose()
    {
        Server.Dispose();
        Client.Dispose();
    }
}
