using System.Buffers;
using System.Text.Json;

namespace Whimbrel.Dashboard;

/// <summary>
/// What all open pages have alike in one update: engines, servers and loops, as the status socket has them, with the
/// lag of each loop.
/// </summary>
internal static class Snapshot
{
    /// <summary>Returns an array of engines as JSON.</summary>
    internal static byte[] Take(IReadOnlyList<Engine> engines, IReadOnlyList<LoopProbe> probes)
    {
        ArrayBufferWriter<byte> buffer = new(8192);
        using (Utf8JsonWriter json = new(buffer))
        {
            json.WriteStartArray();
            foreach (Engine engine in engines)
            {
                json.WriteStartObject();
                StatusSnapshot.WriteFields(json, engine);
                json.WriteStartArray("lagMs");
                foreach (LoopProbe probe in probes)
                {
                    if (ReferenceEquals(probe.Engine, engine)) json.WriteNumberValue(Math.Round(probe.LagMs, 3));
                }

                json.WriteEndArray();
                json.WriteEndObject();
            }

            json.WriteEndArray();
        }

        return buffer.WrittenSpan.ToArray();
    }
}
