using System.Globalization;

namespace Whimbrel.Hosting;

/// <summary>Reads the options of the engine from a section of the configuration, over those in code.</summary>
internal static class EngineSection
{
    internal static EngineOptions Read(SectionReader section, EngineOptions code,
        Action<DiagnosticEvent> onDiagnosticEvent)
    {
        EngineOptions options = new()
        {
            Kind = section.Word(nameof(code.Kind), code.Kind),
            Loops = section.Int(nameof(code.Loops), code.Loops),
            Name = section.Text(nameof(code.Name)) ?? code.Name,
            Priority = section.Word(nameof(code.Priority), code.Priority),
            Cpus = ReadCpus(section) ?? code.Cpus,
            Idle = section.Word(nameof(code.Idle), code.Idle),
            SpinTime = section.Time(nameof(code.SpinTime), code.SpinTime),
            BlockedLoopMs = section.Int(nameof(code.BlockedLoopMs), code.BlockedLoopMs),
            DescriptorMargin = section.Int(nameof(code.DescriptorMargin), code.DescriptorMargin),
            MailboxLimitBytes = section.Long(nameof(code.MailboxLimitBytes), code.MailboxLimitBytes),
            StopTimeout = section.Time(nameof(code.StopTimeout), code.StopTimeout),

            AdoptedLoops = code.AdoptedLoops,
            OnIdle = code.OnIdle,
            OnLoopStarted = code.OnLoopStarted,
            OnLoopStopping = code.OnLoopStopping,
            OnDiagnosticEvent = code.OnDiagnosticEvent ?? onDiagnosticEvent,
        };
        section.End();
        return options;
    }

    private static List<int>? ReadCpus(SectionReader section)
    {
        List<string> texts = section.Texts(nameof(EngineOptions.Cpus));
        if (texts.Count == 0) return null;
        List<int> cpus = [];
        foreach (string text in texts)
        {
            if (int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int cpu)) cpus.Add(cpu);
            else section.Mistake(nameof(EngineOptions.Cpus), $"'{text}' is no number of a cpu");
        }

        return cpus;
    }
}
