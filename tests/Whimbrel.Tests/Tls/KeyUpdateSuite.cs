using System.Security.Authentication;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary> Key updates by the peer, permitted and excessive, on each TLS provider, as server and as client. A key
/// update costs the peer almost nothing and us 10 to 50 microseconds, and a response if it requests one. The peer uses
/// the direct OpenSSL provider, which can be made to misbehave. </summary>
public abstract class KeyUpdateSuite
{
    private const int NoAnswer = 0;

    private const int Rounds = 3000;

    /// <summary>Header, message, its type and the tag.</summary>
    private const int AnswerBytes = 5 + 5 + 1 + 16;

    /// <summary>Prepares options for the provider under test.</summary>
    private protected abstract TlsProfile Prepare(TlsOptions options, bool isServer);

    /// <summary>Number of records without content that the provider accepts while nothing is sent.</summary>
    private protected abstract int MostUnanswered { get; }

    /// <summary>A TLS 1.3 pair after its handshake. Bad is the peer, Good has the provider under test.</summary>
    private (TlsPair Pair, TlsEnd Bad, TlsEnd Good) Meet(bool clientIsBad)
    {
        TlsOptions server = TestCertificates.ServerOptions, client = OpenSslRig.Client(SslProtocols.Tls13);
        TlsPair pair = new TlsPair(
            clientIsBad ? Prepare(server, true) : OpenSslRig.Prepare(server, true),
            clientIsBad ? OpenSslRig.Prepare(client, false) : Prepare(client, false)).Shake();
        pair.Talk();
        return clientIsBad ? (pair, pair.Client, pair.Server) : (pair, pair.Server, pair.Client);
    }

    /// <summary>Key updates, each followed by one byte, all in one block.</summary>
    private static void UpdateMany(TlsPair pair, TlsEnd bad, int kind, int count)
    {
        for (int i = 0; i < count; i++)
        {
            OpenSslRig.UpdateKeys(bad, kind);
            bad.Send("x"u8);
        }

        pair.Move();
    }

    [Theory]
    [InlineData(NoAnswer, false)]
    [InlineData(NoAnswer, true)]
    [InlineData(OpenSslRig.KeyUpdateRequested, false)]
    [InlineData(OpenSslRig.KeyUpdateRequested, true)]
    public void A_flood_of_key_updates_ends_the_connection_and_a_few_do_not(int kind, bool clientIsBad)
    {
        (TlsPair pair, TlsEnd bad, TlsEnd good) = Meet(clientIsBad);
        using (pair)
        {
            UpdateMany(pair, bad, kind, 10);
            pair.Talk();
            UpdateMany(pair, bad, kind, 40);
            Assert.Equal([TlsStep.Refused], good.Ends);
            Assert.Equal(TlsFailure.Flood, good.Fault.Cause);
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_peer_that_changes_keys_with_every_block_of_a_long_life_is_served(bool clientIsBad)
    {
        (TlsPair pair, TlsEnd bad, TlsEnd good) = Meet(clientIsBad);
        using (pair)
        {
            // More than may stay unanswered: sent data carries the responses.
            for (int i = 0; i < 1500; i++)
            {
                OpenSslRig.UpdateKeys(bad, OpenSslRig.KeyUpdateRequested);
                pair.Talk();
            }

            Assert.False(good.HasEnded);
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Key_updates_that_request_one_from_an_end_that_never_sends_are_answered_or_end_the_connection(
        bool clientIsBad)
    {
        (TlsPair pair, TlsEnd bad, TlsEnd good) = Meet(clientIsBad);
        using (pair)
        {
            long answered = AnsweredBy(pair, clientIsBad);
            int round = 0;
            while (round < Rounds && !good.HasEnded)
            {
                UpdateMany(pair, bad, OpenSslRig.KeyUpdateRequested, 1);
                round++;
            }

            // Bytes that neither complete a record nor end the connection are kept, and accumulate.
            if (MostUnanswered > Rounds)
            {
                Assert.False(good.HasEnded, $"{good.Fault}");
                // The last one may wait for the next call.
                Assert.True(AnsweredBy(pair, clientIsBad) - answered >= (Rounds - 1) * AnswerBytes);
                return;
            }

            Assert.Equal(TlsFailure.Flood, good.Fault.Cause);
            // A client counts the server's ticket as well.
            Assert.InRange(round, MostUnanswered - 1, MostUnanswered + 1);
        }
    }

    private static long AnsweredBy(TlsPair pair, bool clientIsBad) =>
        clientIsBad ? pair.Moved.FromServer : pair.Moved.FromClient;
}

public sealed class SslStreamKeyUpdateTests : KeyUpdateSuite
{
    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        new SslStreamProfile(options, isServer);

    private protected override int MostUnanswered => SslStreamLayer.MostUnanswered;
}

public sealed class OpenSslKeyUpdateTests : KeyUpdateSuite
{
    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        OpenSslRig.Prepare(options, isServer);

    // It writes responses immediately.
    private protected override int MostUnanswered => int.MaxValue;
}
