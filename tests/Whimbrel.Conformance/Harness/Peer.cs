using System.Net;

namespace Whimbrel.Conformance;

/// <summary> The other end at the level of the socket, under full control of the test: it reads, writes, shuts down and
/// resets only on request. Not reading makes it slow. </summary>
public abstract class Peer(Rig rig)
{
    protected Rig Rig => rig;

    /// <summary>Writes what fits now. Returns the number of accepted bytes, 0 if none fits.</summary>
    public abstract int TryWrite(ReadOnlySpan<byte> data);

    /// <summary>Reads available bytes: -1 if there are none, 0 after the FIN. Throws <see cref="IOException"/> after a
    /// reset.</summary>
    public abstract int TryRead(Span<byte> buffer);

    /// <summary>Sends FIN; reading continues.</summary>
    public abstract void ShutdownSend();

    /// <summary>Closes with a reset (a Unix socket: with an ordinary end).</summary>
    public abstract void Reset();

    /// <summary>Closes. A TCP socket with unread bytes resets the connection.</summary>
    public abstract void Close();

    public abstract EndPoint? LocalEndPoint { get; }

    /// <summary>Writes everything, waiting for space.</summary>
    public void Write(byte[] data)
    {
        ArgumentNullException.ThrowIfNull(data);
        int done = 0;
        rig.Until(
            () =>
            {
                int taken;
                while (done < data.Length && (taken = TryWrite(data.AsSpan(done))) > 0) done += taken;
                return done == data.Length;
            },
            $"a write of {data.Length} bytes");
    }

    public void Write(string text) => Write(System.Text.Encoding.ASCII.GetBytes(text));

    /// <summary>Writes until nothing more fits after all pending work is done. Returns the number of accepted
    /// bytes.</summary>
    public int WriteUntilFull(byte[] piece, int most = 64 * 1024 * 1024)
    {
        ArgumentNullException.ThrowIfNull(piece);
        BeReady();
        int total = 0;
        for (int idle = 0; idle < 3 && total < most;)
        {
            int taken = TryWrite(piece.AsSpan(total % piece.Length));
            total += taken;
            if (taken > 0)
            {
                idle = 0;
                continue;
            }

            idle++;
            rig.Settle();
        }

        return total;
    }

    /// <summary>Waits until it can write: otherwise a long handshake looks like a full connection.</summary>
    protected virtual void BeReady()
    {
    }

    /// <summary>Reads exactly this many bytes.</summary>
    public byte[] Read(int count)
    {
        byte[] data = new byte[count];
        int done = 0;
        rig.Until(
            () =>
            {
                while (done < count)
                {
                    int got = TryRead(data.AsSpan(done));
                    if (got < 0) return false;
                    Assert.True(got > 0, $"the other end finished after {done} of {count} bytes");
                    done += got;
                }

                return true;
            },
            $"a read of {count} bytes");
        return data;
    }

    public string ReadText(int count) => System.Text.Encoding.ASCII.GetString(Read(count));

    /// <summary>Reads up to the FIN. Throws <see cref="IOException"/> after a reset.</summary>
    public byte[] ReadToEnd()
    {
        using MemoryStream data = new();
        byte[] buffer = new byte[64 * 1024];
        rig.Until(
            () =>
            {
                int got;
                while ((got = TryRead(buffer)) > 0) data.Write(buffer, 0, got);
                return got == 0;
            },
            "the other end to finish");
        return data.ToArray();
    }

    public string ReadTextToEnd() => System.Text.Encoding.ASCII.GetString(ReadToEnd());

    /// <summary>Reads to the end. Returns true if it was a reset.</summary>
    public bool EndsInReset()
    {
        try
        {
            ReadToEnd();
            return false;
        }
        catch (IOException)
        {
            return true;
        }
    }
}
