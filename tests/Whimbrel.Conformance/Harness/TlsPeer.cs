using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary> A peer that uses TLS over another peer. Its handshake continues whenever the rig waits; after that it
/// reads only on request. An end without close_notify is a failed read. </summary>
public sealed class TlsPeer : Peer
{
    private const int MostEarly = 1024;
    private const int KeyUpdateRequested = 1;

    private readonly Peer _raw;
    private readonly TlsEnd _end;
    private readonly Lock _gate = new();
    private readonly byte[] _buffer = new byte[16 * 1024];
    private bool _rawEnded;
    private bool _isClosed;
    private IOException? _broken;
    private readonly List<byte> _early = [];
    private IOException? _cannotWrite;
    private int _plainRead;

    internal TlsPeer(Rig rig, Peer raw, TlsProfile profile, string? host)
        : base(rig)
    {
        _raw = raw;
        _end = new TlsEnd(profile, host);
        _end.Start();
        Pump();
    }

    /// <summary>The peer below, for bytes that no layer would write.</summary>
    public Peer Raw => _raw;

    public bool IsClosed => _isClosed;

    public bool IsReady => _end.IsReady;

    internal TlsFault Fault => _end.Fault;

    public TlsInfo? Info => _end.IsReady ? _end.Layer!.Info : null;

    /// <summary>The handshake is complete, or has failed.</summary>
    public bool IsSettled => _isClosed || _end.IsReady || _end.HasEnded || _rawEnded || _broken is not null;

    public override EndPoint? LocalEndPoint => _raw.LocalEndPoint;

    /// <summary>Continues the handshake. Returns true if data was moved.</summary>
    public bool Pump()
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            bool moved = FlushOutput();
            while (!_end.IsReady && !_end.HasEnded && !_rawEnded && _broken is null && ReadRaw()) moved = true;
            if (_end.IsReady && _early.Count > 0)
            {
                _end.Send(CollectionsMarshal.AsSpan(_early));
                _early.Clear();
            }

            return FlushOutput() || moved;
        }
    }

    public override int TryWrite(ReadOnlySpan<byte> data)
    {
        lock (_gate)
        {
            Pump();
            if (_isClosed) throw new IOException("the peer was closed");
            if ((_broken ?? _cannotWrite) is { } broken) throw broken;
            if (!_end.IsReady && !IsSettled && _early.Count + data.Length <= MostEarly)
            {
                // As a socket buffers a little before it is read.
                _early.AddRange(data);
                return data.Length;
            }

            if (!_end.IsReady || _end.Output.Count > 0 || data.IsEmpty) return 0;
            int count = Math.Min(data.Length, 16 * 1024);
            if (_end.Send(data[..count]) != TlsStep.NeedInput)
                throw new IOException($"TLS failed: {_end.Layer!.Fault}");
            FlushOutput();
            return count;
        }
    }

    public override int TryRead(Span<byte> buffer)
    {
        lock (_gate)
        {
            if (_isClosed) throw new IOException("the peer was closed");
            Pump();
            while (_end.Plain.Count == _plainRead)
            {
                if (_end.Ends is [TlsStep.PeerClosed]) return 0;
                if (_broken is not null) throw _broken;
                if (_end.HasEnded) throw new IOException($"TLS failed: {_end.Ends[0]}, {_end.Fault}");
                if (!ReadRaw()) return -1;
            }

            int count = Math.Min(buffer.Length, _end.Plain.Count - _plainRead);
            CollectionsMarshal.AsSpan(_end.Plain).Slice(_plainRead, count).CopyTo(buffer);
            _plainRead += count;
            if (_plainRead == _end.Plain.Count)
            {
                _end.Plain.Clear();
                _plainRead = 0;
            }

            FlushOutput();
            return count;
        }
    }

    public override void ShutdownSend()
    {
        BeReady();
        lock (_gate)
        {
            if (_end.IsReady && !_isClosed) _end.CloseNotify();
        }

        Flushed();
        if (!_isClosed) _raw.ShutdownSend();
    }

    /// <summary>With the OpenSSL provider: updates its keys, requests the same from the other end, and sends a byte
    /// after it, this many times.</summary>
    public void ChangeKeys(int count)
    {
        lock (_gate)
        {
            for (int i = 0; i < count; i++)
            {
                Assert.Equal(1, SslKeyUpdate(((OpenSslLayer)_end.Layer!).Native, KeyUpdateRequested));
                _end.Send("x"u8);
            }
        }

        Flushed();
    }

    /// <summary>close_notify without FIN.</summary>
    public void CloseNotifyOnly()
    {
        BeReady();
        lock (_gate) _end.CloseNotify();
        Flushed();
    }

    /// <summary>FIN without close_notify.</summary>
    public void Cut()
    {
        BeReady();
        Flushed();
        _raw.ShutdownSend();
    }

    public override void Reset()
    {
        lock (_gate)
        {
            if (_isClosed) return;
            _isClosed = true;
            _end.Dispose();
            _raw.Reset();
        }
    }

    public override void Close()
    {
        lock (_gate)
        {
            if (_isClosed) return;
            try
            {
                if (_end.IsReady && _broken is null) _end.CloseNotify();
                FlushOutput();
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException)
            {
                // Closed already.
            }

            _isClosed = true;
            _end.Dispose();
            _raw.Close();
        }
    }

    protected override void BeReady() => Rig.Until(() => IsSettled, "the handshake of a peer");

    private void Flushed() => Rig.Until(
        () =>
        {
            Pump();
            return _end.Output.Count == 0;
        },
        "the last record of a peer to leave");

    /// <summary>Reads once from below. Returns false if there is nothing.</summary>
    private bool ReadRaw()
    {
        if (_rawEnded || _broken is not null) return false;
        int count;
        try
        {
            count = _raw.TryRead(_buffer);
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            _broken = new IOException("the raw peer broke", e);
            return true;
        }

        if (count < 0) return false;
        if (count == 0)
        {
            _rawEnded = true;
            _end.EndOfInput();
            if (!_end.HasEnded) _broken = new IOException("the other end left before there was TLS");
        }
        else
        {
            _end.Feed(_buffer.AsSpan(0, count));
            FlushOutput();
        }

        return true;
    }

    private bool FlushOutput()
    {
        bool moved = false;
        while (_end.Output.Count > 0 && _broken is null)
        {
            int taken;
            try
            {
                taken = _raw.TryWrite(CollectionsMarshal.AsSpan(_end.Output));
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException)
            {
                // Bytes still to be read may contain the cause.
                _cannotWrite = new IOException("the raw peer broke", e);
                _end.Output.Clear();
                return moved;
            }

            if (taken == 0) return moved;
            _end.Output.RemoveRange(0, taken);
            moved = true;
        }

        return moved;
    }

    [DllImport("libssl.so.3", EntryPoint = "SSL_key_update")]
    private static extern int SslKeyUpdate(nint ssl, int kind);
}
