namespace Whimbrel.Testing;

/// <summary>A simulation waits for something that can never happen: nothing is left to run and no timer is armed. The message has the seed and the last steps.</summary>
public sealed class SimulationStalledException : Exception
{
    /// <summary>Makes the exception.</summary>
    /// <param name="message">Seed and last steps.</param>
    public SimulationStalledException(string message)
        : base(message)
    {
    }
}
